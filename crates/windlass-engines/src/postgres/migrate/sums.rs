//! A sum over each text that a statement has today or had when it left the house, so that none gets lost: processes of earlier versions go
//! on using theirs, and whether they can on a newer schema is tested with the texts that `older.rs` keeps.
#![cfg(test)]

use super::older::OLDER;
use super::tests::sum;
use crate::postgres::sql::Statements;

/// By name, and the older before the newer. Comments and how lines are broken do not count.
const SUMS: &[(&str, u64)] = &[
    ("add_counts", 0x1c50_f803_b90a_4a55),
    ("add_counts", 0xba05_0fcd_d0d2_806b),
    ("advance_ordering_key", 0xfa88_b15d_3362_de7f),
    ("append_samples", 0xdb90_5009_11a9_d239),
    ("apply_rollup", 0xee74_7245_ff43_54c2),
    ("asked_to_stop", 0x86f1_e8e6_c9ed_1762),
    ("set_statement_timeout", 0x990f_d249_4235_ffbf),
    ("behind_gate", 0x4777_08c5_1ecb_f1c6),
    ("breakers", 0xec81_3751_5fb3_530e),
    ("claim", 0x0939_bbcb_f848_dafa),
    ("claim", 0xc0fa_632e_bfca_33af),
    ("claim", 0xfb06_55ee_c5c5_2029),
    ("claim_fairness_keys", 0x8b79_96df_63eb_dadc),
    ("claim_fairness_keys", 0x13e8_83d9_fe8b_567a),
    ("claim_fairness_keys", 0xd9df_63b1_0aca_e4ac),
    ("claim_suspect", 0x6230_0e42_def5_2cde),
    ("claim_suspect", 0x8648_0447_55a0_430f),
    ("claimed_before", 0xcd3b_c353_9915_b1c3),
    ("close_receipt", 0xa757_d6bf_0e35_abe7),
    ("close_request", 0xd4b7_a950_8fe7_9a4e),
    ("complete", 0x769e_60db_bd0d_bf5f),
    ("count_triggers", 0xbf62_89f1_def7_9fd6),
    ("count_schedules", 0xb056_a4fd_09a4_1e85),
    ("dead_key", 0xcd30_a067_ea4d_50c0),
    ("declare_dead", 0xa7b1_ac87_6c72_1afe),
    ("declare_queues", 0xb088_9de4_1fbe_06bc),
    ("declare_types", 0xa92b_c095_8392_a0d0),
    ("discard", 0x1126_4770_d630_c4f0),
    ("discard", 0xd9b4_a5bf_8e2b_f1c3),
    ("triggers_named", 0x1c6c_2b0d_c0d1_8068),
    ("triggers_named", 0xba7b_0290_4190_d904),
    ("drop_partitions", 0x4cb3_0e49_35e8_3e34),
    ("drop_reserved_keys", 0x13ff_9b8e_a9e7_3925),
    ("due_schedules", 0xad83_2752_510e_df36),
    ("due_schedules", 0x480b_b39e_bd2a_0f76),
    ("duty_locks", 0x0add_8681_98ae_5351),
    ("ended_state", 0x68ff_6f8a_b800_d513),
    ("enqueue", 0x6bee_c8ef_c3dc_e9dd),
    ("enqueue", 0x97e5_6478_b623_bd87),
    ("enqueue", 0xf0fa_0168_c010_71b8),
    ("enqueue_many", 0x4303_8bb2_3f84_3e8c),
    ("expired", 0x9b56_8d3a_d0ae_64a5),
    ("extend", 0x4848_7500_a7bb_f8b8),
    ("extend", 0x68e7_efda_3264_c87b),
    ("find_receipt", 0x9d8f_9bec_fa10_0cbc),
    ("find_worker", 0x8c9c_d4c5_2b82_5fd8),
    ("fold_claims", 0xfdd1_d131_7300_2a5c),
    ("fold_counts", 0x1950_c719_9936_626f),
    ("fold_counts", 0x5f32_bfec_b5a9_5bea),
    ("merge_count_minutes", 0xac54_3fa9_2b6b_1d0f),
    ("forget_requeued_jobs", 0x16c6_6a24_99d9_32d9),
    ("forget_requeued_jobs", 0x4b83_8db7_1c98_ca58),
    ("forget_fairness_keys", 0x94a1_0ed2_fc9b_aa0b),
    ("forget_waiting", 0x65ab_9dcb_0567_7383),
    ("forget_waiting", 0x2662_a13a_fe22_151a),
    ("free_ended_keys", 0xff7a_1733_6841_d4c5),
    ("free_keys", 0x28ff_ae59_6d5b_2eb5),
    ("gates", 0x2c11_5b2b_b58d_931f),
    ("gates", 0x7799_d1ba_dc2b_0535),
    ("hidden_sessions", 0x0fd4_636a_a0af_f940),
    ("hold_keys", 0xc0bf_4c68_c998_1988),
    ("insert_attempts", 0x5582_38eb_1104_d14e),
    ("insert_attempts", 0x895a_b72f_6082_4ab7),
    ("insert_jobs", 0xb9b4_4c2a_1545_30dc),
    ("insert_jobs", 0xdec7_f83b_cc17_0def),
    ("insert_jobs", 0xf44b_2116_228f_8d9e),
    ("keys_of", 0xe366_7ba5_0089_eec2),
    ("existing_keys", 0xf68f_3ff6_9591_9a3f),
    ("apply_dead", 0x340b_519f_4a3b_68f1),
    ("apply_dead", 0x24a6_6fa1_c7f9_852d),
    ("apply_dead", 0x49fb_95fa_f87b_40b8),
    ("apply_dead", 0x171b_540e_7eb7_cc91),
    ("apply_ended", 0x50ea_7552_bbf2_a100),
    ("apply_ended", 0x4446_50f6_a9ce_64b2),
    ("apply_ended", 0x680b_c722_6534_9db1),
    ("apply_ended", 0x8415_2172_4ca6_d034),
    ("apply_ended", 0x1a6a_03bd_e0fa_ff81),
    ("apply_waiting", 0x0e94_82f1_ffc2_2431),
    ("apply_waiting", 0x56a8_29fc_9d69_381d),
    ("apply_waiting", 0x2a92_7fb9_9c79_4239),
    ("apply_waiting", 0x2e3d_7afb_f727_0cd5),
    ("apply_waiting", 0x3cd9_7000_a352_311d),
    ("last_attempt", 0xb614_e30f_9f99_b6bb),
    ("leases", 0xd83f_178b_698a_62ee),
    ("leases_hold", 0x68d0_e307_5ea2_2a85),
    ("queue_has_work", 0x6a3e_45af_8799_0ec7),
    ("queue_has_work", 0x199e_7001_13f5_2700),
    ("group_has_work", 0x92a9_d531_8f8b_ee22),
    ("type_has_work", 0xad64_0b9e_f4d0_cf1b),
    ("type_has_work", 0x2090_4002_db8b_53a5),
    ("list_dead", 0x2621_b9d5_ddf2_5679),
    ("list_triggers", 0x478b_f505_37a0_5bb0),
    ("list_triggers", 0xc7f2_514a_12dd_8ef4),
    ("list_ended", 0xf98d_22dc_bdd3_3e3e),
    ("list_live", 0x4276_6e18_3227_468c),
    ("list_rollups", 0xafb9_e564_f3a6_7878),
    ("list_running", 0xad40_ab07_8337_051e),
    ("list_schedules", 0x97f5_42dc_92bd_e612),
    ("list_schedules", 0xfe46_d800_ce20_f02e),
    ("live_workers", 0x51b9_5569_2e92_0a26),
    ("live_workers", 0xa070_23a6_1d7e_ad77),
    ("live_workers", 0x8ac5_3a30_b603_4556),
    ("load_queues", 0x66d3_d5fc_ea65_5eb1),
    ("load_queues", 0x8421_4427_0596_f47a),
    ("load_types", 0x8425_a486_ab16_2149),
    ("load_version", 0x2f5d_b27e_868a_7361),
    ("lock_catalogue", 0xf4a1_3e46_01a8_7a40),
    ("lock_dead", 0x196f_6db6_3306_8aba),
    ("lock_triggers", 0x4eb3_7910_5f83_f997),
    ("lock_duties", 0xb407_6df7_49f0_a310),
    ("lock_duty", 0x99fe_e173_e65a_836c),
    ("lock_free_trigger", 0x30b1_b7ae_476f_e3fd),
    ("lock_free_jobs", 0xf543_fbfb_afd0_4882),
    ("lock_free_jobs", 0x04a0_0213_5ced_959d),
    ("lock_free_keys", 0x7bee_3299_0702_b84c),
    ("lock_jobs", 0xf51b_a20c_4766_157f),
    ("lock_jobs", 0xf399_b68d_77ed_9a38),
    ("lock_keys", 0xe648_88c2_9e23_9025),
    ("lock_rest", 0x7692_bf84_750e_61d5),
    ("lock_schedules", 0xc5f4_e6f4_78fe_8608),
    ("look", 0xe450_7620_10c5_ebac),
    ("look", 0xc583_a04b_a4c6_278a),
    ("look", 0x8309_c158_4fda_799d),
    ("look", 0x7d72_f1a5_d66f_dbc6),
    ("look", 0x20d6_384b_2893_9b9f),
    ("look_ahead", 0x929b_6bc4_9fad_c031),
    ("look_ahead", 0x2f91_6849_25a4_7ee4),
    ("look_at_tokens", 0xafea_30de_2251_34c6),
    ("create_partitions", 0x19f4_8d93_f581_3268),
    ("mark_triggers", 0xf337_b59b_158b_64c9),
    ("mark_ordering_key", 0x32d1_1f73_d2e8_fa97),
    ("mark_waiting", 0x6306_d826_690b_4cad),
    ("marked_triggers", 0x9290_aed0_5686_2761),
    ("repair_claims", 0xe8b5_c116_d9b8_dd9a),
    ("rollups_of", 0x5798_4d15_905a_e883),
    ("invalid_priority", 0xac6d_d535_7edc_24c2),
    ("note_firing", 0x830b_335c_ef26_c150),
    ("note_locks", 0x48be_545f_b497_29c3),
    ("note_requeued_jobs", 0x7aa2_9759_c551_ac18),
    ("notification_queue", 0xfc8e_a977_5405_3f1c),
    ("oldest_snapshot", 0x6bec_380f_f464_1f6a),
    ("open_gate", 0x91eb_33e6_716e_865f),
    ("open_gate", 0x2c6e_0b09_b02d_e156),
    ("open_gate", 0x2a6e_bc44_f750_adab),
    ("open_receipt", 0xcdd0_ce68_fe2a_e43c),
    ("orphans", 0xa919_191d_bb03_3a09),
    ("our_indexes", 0x2b60_ec25_11a8_4615),
    ("our_space", 0xffc1_b946_8e35_80b5),
    ("our_tables", 0xed12_3fe3_51a6_8db6),
    ("places_of", 0x4cb8_348c_1b22_a444),
    ("prune_claims", 0xc9ca_259b_1d96_6eaa),
    ("prune_rollups", 0x2f2a_0d2b_6ad6_b61d),
    ("prune_keys", 0x90c7_7fdd_47ba_5bbd),
    ("prune_rate_limits", 0xafa9_db59_fc43_b057),
    ("prune_receipts", 0x4839_c349_cc71_4aac),
    ("prune_rest", 0x6e54_46e3_1885_fb0f),
    ("prune_rest", 0xf73d_2295_3b0f_6c6d),
    ("prune_traces", 0x7f0b_4e44_048d_cece),
    ("prune_workers", 0xde80_66b7_4bdf_50ea),
    ("requeued_jobs", 0x62c0_ffb9_0339_0caa),
    ("postpone_trigger", 0xacfc_98db_5689_f7cf),
    ("queue_counts", 0x7b6f_cde1_9993_d158),
    ("queue_counts", 0x10ba_01e0_df62_1c6b),
    ("read_attempts", 0x2239_0c8a_cd46_fbe4),
    ("read_clock", 0x847c_349a_435b_b064),
    ("read_dead", 0x1d6b_0450_ef7c_f5ee),
    ("read_ended", 0x6937_851c_c577_f629),
    ("read_live", 0xdfc5_6f6f_f152_49eb),
    ("read_now", 0x4bc0_b0e6_2d09_a137),
    ("read_now", 0x9c96_20e5_7fd3_4505),
    ("register", 0x44c6_74b4_e7f1_25f5),
    ("register", 0x93d2_4b65_c6f4_65b1),
    ("register", 0x1ba5_1f91_face_9e70),
    ("release_leases", 0xebfa_1f45_b171_16fc),
    ("release_leases", 0xb699_658c_7479_f8dc),
    ("remove_triggers", 0x2b00_786c_337d_34a7),
    ("remove_schedules", 0x2e55_7b9a_2287_1108),
    ("renew_catalogue", 0xc568_9642_71cf_7e3a),
    ("renew_catalogue", 0x4ac8_8b4b_a3c0_0880),
    ("renew_leases", 0x3e84_bf52_5ec6_c307),
    ("renew_leases", 0x0289_0117_04af_0747),
    ("replace_job", 0x2040_c5f4_f583_55f0),
    ("replace_job", 0x03d4_ad99_8823_2ad9),
    ("report", 0x0bc1_a864_7431_4d2f),
    ("request_cancel", 0x6299_9b8f_3593_f8f6),
    ("reserve_keys", 0x5a5d_cc6b_8282_4e49),
    ("retire", 0xc331_86cb_0ce7_8b5b),
    ("running_of", 0x6a4b_3861_fb41_ebf8),
    ("save_breaker", 0xc3ef_041b_c88f_e411),
    ("save_triggers", 0xec3a_e917_2940_e6da),
    ("save_triggers", 0x8830_ea56_d496_0f52),
    ("save_pause", 0x6536_a47b_104c_e4ab),
    ("save_pause", 0x5b09_9a0a_1b12_bc4d),
    ("save_schedules", 0x12c4_77b6_ac14_5582),
    ("save_shut", 0x72a8_d018_98cf_7a8d),
    ("save_shut", 0x5fa6_b9aa_ed55_e1cf),
    ("schedules_named", 0xe0b8_d398_5cc0_d1a0),
    ("schedules_named", 0x9cc3_04d6_65ed_492c),
    ("ordering_key_out", 0x500c_693d_47ef_b5fb),
    ("served", 0x3a89_3848_effc_6a22),
    ("set_last_jobs", 0xcc63_fbff_0b91_6d01),
    ("set_last_jobs", 0xc266_7284_a474_d4e7),
    ("set_priority", 0xb1eb_f5ae_3000_5b29),
    ("set_priority", 0xf6ea_b967_f549_0721),
    ("settle", 0x8183_7141_4096_96e5),
    ("settle", 0x647c_5b8a_8fcf_3e79),
    ("settle", 0xcff3_e73a_5279_4ae4),
    ("settle", 0xa417_9cf2_545f_2c27),
    ("settle", 0xf2f7_21a2_6e61_4b64),
    ("settle", 0xd53b_df74_eb91_17f7),
    ("settle_traced", 0xa77e_967b_0a93_24cb),
    ("settle_traced", 0xd851_4f56_ac6e_3c03),
    ("settle_traced", 0x6a54_258c_94ca_535a),
    ("settle_traced", 0x8d8a_400d_9356_87c3),
    ("fairness_keys_due", 0x7322_366d_4ef5_2c45),
    ("write_claim_tombstone", 0xedb3_49e8_e23e_43ca),
    ("stages", 0x82a7_47b1_ffea_4e02),
    ("start_over", 0x3a80_dfd8_32b8_f3b2),
    ("start_over", 0xcea1_f160_c9d8_22b7),
    ("start_over", 0xa1e3_6e19_17aa_b80c),
    ("step_down", 0xb80f_0799_107c_167e),
    ("still_hold", 0x5669_3591_f140_c1ed),
    ("take_ids", 0x9480_9cc7_fea1_ad4f),
    ("take_ids", 0x4f05_524b_0135_a10e),
    ("take_leases", 0x5cb8_00a7_66d4_c3ae),
    ("take_leases", 0xf96d_05ee_271f_d695),
    ("take_tokens", 0x1545_01fc_a431_2acf),
    ("to_sweep", 0xa15d_f0b2_f337_f83a),
    ("to_sweep", 0xe5f6_cce0_3bbd_ec55),
    ("to_sweep", 0xa7c1_c7c4_182f_54c0),
    ("to_sweep", 0xeaac_39e3_9514_27ae),
    ("trim_attempts", 0x535f_7df6_1149_8744),
    ("trim_marks", 0xd7fe_8bc1_9844_6931),
    ("type_unfinished", 0xa903_6c71_2dfc_0136),
    ("types_waiting", 0x1be8_961e_c76f_8475),
    ("unfinished", 0x2a6c_77e1_ef91_097c),
    ("rollup_input", 0x943e_07e0_3bf5_7fca),
    ("rollup_input", 0x44fa_470e_7b7a_cddf),
    ("unlock_duties", 0x3c3d_e5bb_ed91_4cab),
    ("unlock_duty", 0xbf07_d289_eda0_4aa3),
    ("unmark_trigger", 0x6a2d_cdf5_cc6b_c6b1),
    ("unmark_waiting", 0x30f4_10ff_a47a_572b),
    ("use_fairness_keys", 0x3b61_67a1_1d7a_aa50),
    ("waiting_in", 0xf71f_767f_7b5e_0e8c),
    ("waiting_of_type", 0x75e9_eab7_796a_9e0e),
    ("wake_next", 0x4867_c3b7_0e71_219e),
    ("was_settled", 0x9299_02ca_a9be_f6ea),
];

/// A text without its comments, and with single spaces.
fn bare(text: &str) -> String {
    let words = text.lines().flat_map(|line| without_comment(line).split_whitespace());
    words.collect::<Vec<_>>().join(" ")
}

fn without_comment(line: &str) -> &str {
    let is_outside = |at: &usize| line[..*at].matches('\'').count().is_multiple_of(2);
    line.match_indices("--").map(|(at, _)| at).find(is_outside).map_or(line, |at| &line[..at])
}

/// What is to be done so that no text is lost.
fn complaints(
    today: &[(&'static str, &'static str)],
    older: &[(&'static str, &'static str)],
    pinned: &[(&str, u64)],
) -> Vec<String> {
    let summed = |(name, text): &(&'static str, &'static str)| (*name, sum(&bare(text)));
    let there: Vec<(&str, u64)> = older.iter().chain(today).map(summed).collect();
    let lost = pinned.iter().filter(|of| !there.contains(of)).map(|(name, sum)| {
        format!(
            "{name} had the text with the sum {sum:#018x}, which is neither today's nor kept. If it is on main, processes use it while \
             a newer version is rolled out: `git show main:crates/windlass-engines/src/postgres/sql/{name}.sql` has it; keep it under \
             migrations/older, by the newest version that main has, and name it in OLDER (claim_fairness_keys as sql.rs puts it together). If it \
             never was on main, take its sum out of SUMS"
        )
    });
    let new = there.iter().filter(|of| !pinned.contains(of)).map(|(name, sum)| {
        format!("{name} has a text that is not in SUMS; add behind the others of its name: (\"{name}\", {sum:#018x}),")
    });
    lost.chain(new).collect()
}

#[test]
fn a_text_that_a_process_may_still_use_is_kept_when_its_statement_changes() {
    let older: Vec<_> = OLDER.iter().map(|(_, name, text)| (*name, *text)).collect();
    let complaints = complaints(&Statements::all(), &older, SUMS);
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn a_changed_text_is_new_and_the_one_before_it_lost_until_it_is_kept() {
    let (before, after) = (("claim", "-- claim: one\nSELECT 1"), ("claim", "-- claim: two\nSELECT  2"));
    let pinned = |text: &str| ("claim", sum(text));
    let told = complaints(&[after], &[], &[pinned("SELECT 1")]);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("claim had the text") && told[0].contains("main"), "{told:?}");
    assert!(told[1].contains(&format!("(\"claim\", {:#018x})", sum("SELECT 2"))), "{told:?}");
    assert_eq!(complaints(&[after], &[before], &[pinned("SELECT 1"), pinned("SELECT 2")]), [""; 0]);
    assert_eq!(complaints(&[], &[], &[pinned("SELECT 1")]).len(), 1, "a statement that is gone");
}

#[test]
fn comments_and_spaces_do_not_count_and_what_stands_in_quotes_does() {
    assert_eq!(bare("-- a: b\n  SELECT 1, -- one\n\n    '--' ; -- '"), "SELECT 1, '--' ;");
}
