//! The list of all behaviours, in the order of a job's life. A test compares it with the sources, so that a
//! behaviour missing from the list is noticed.

/// Calls a macro with the arguments given and then every behaviour, grouped by module.
#[doc(hidden)]
#[macro_export]
macro_rules! every_behaviour {
    ([$($callback:tt)+] $($argument:tt),*) => {
        $($callback)+! {
            $($argument),*;
            enqueue:
                a_new_job_is_ready a_new_job_has_done_nothing_yet every_field_of_a_new_job_is_kept
                where_a_job_comes_from_is_known_until_its_history_ends
                a_claim_hands_out_the_job_as_it_is_stored
                a_delayed_job_is_scheduled_and_ready_exactly_when_due
                a_job_for_an_instant_in_the_past_is_ready_and_keeps_its_instant
                numbers_rise_in_the_order_of_a_batch numbers_rise_from_request_to_request
                the_number_of_a_job_that_is_gone_is_not_given_again an_empty_batch_has_no_answers
                a_batch_of_the_greatest_size_is_taken a_batch_over_the_limit_is_refused_whole
                one_refused_job_does_not_spoil_the_others an_unknown_type_is_refused
                another_queue_than_the_types_is_refused_naming_both an_undeclared_queue_is_refused
                a_shut_queue_refuses_and_opens_again a_full_queue_refuses_and_the_batch_itself_counts
                capacity_counts_running_scheduled_and_parked_jobs capacity_does_not_count_what_has_ended
                absurd_times_are_refused absurd_options_are_refused nothing_of_a_refused_job_is_stored
                a_job_without_a_priority_takes_its_types_and_else_its_queues many_callers_at_once_lose_nothing
            ;
            receipts:
                a_repeated_request_gives_the_same_answers_and_no_second_job
                a_repeat_makes_no_second_job_even_if_the_first_is_done_and_gone
                a_repeat_repeats_the_answer_about_a_key_that_is_free_again a_receipt_can_be_read
                a_request_that_never_came_has_no_receipt a_batch_that_was_refused_whole_has_no_receipt
                a_receipt_is_kept_for_an_hour_through_prunes an_old_receipt_is_pruned
                a_request_that_arrives_after_it_was_asked_about_stores_nothing_and_is_told_so
                each_job_of_a_batch_is_told_that_its_request_was_closed a_request_may_be_asked_about_twice
                a_stored_request_that_is_asked_about_keeps_its_answers
                a_request_that_was_closed_stays_closed_for_an_hour_through_prunes
                a_request_that_is_asked_about_again_stays_closed_for_an_hour_from_then
                a_receipt_with_answers_lasts_no_longer_for_being_asked_about
                an_old_tombstone_of_a_request_is_pruned a_receipt_that_has_lapsed_is_replaced_by_a_tombstone
                a_request_and_a_question_about_it_at_once_agree the_same_request_twice_at_once_makes_one_job
                a_request_that_comes_again_after_an_hour_is_a_new_one_though_nothing_was_pruned
            ;
            keys:
                a_waiting_job_holds_its_key a_scheduled_job_holds_its_key a_running_job_holds_its_key
                a_parked_job_holds_its_key a_job_that_waits_for_its_retry_holds_its_key
                a_key_counts_within_its_type_only two_jobs_of_one_batch_with_one_key_are_one_job
                the_kept_job_is_left_as_it_is success_frees_the_key
                success_of_a_type_that_keeps_nothing_frees_the_key cancelling_a_waiting_job_frees_the_key
                a_handler_that_cancels_frees_the_key a_purge_frees_the_key expiry_by_a_sweep_frees_the_key
                expiry_found_by_a_claim_frees_the_key burial_frees_the_key_of_a_job_that_holds_it_while_live
                burial_by_crashes_frees_the_key a_rescued_job_still_holds_its_key
                a_dead_letter_holds_its_key_if_its_scope_says_so discarding_a_dead_letter_frees_the_key
                success_frees_the_key_of_a_backfill a_newcomer_replaces_the_payload_and_time_of_a_waiting_job
                a_replaced_job_is_claimed_at_its_new_time_only a_running_job_is_not_replaced
                a_dead_backfill_is_revived_with_fresh_counters_and_the_new_payload a_revived_job_runs_again
                a_waiting_backfill_is_kept_not_revived a_period_holds_the_key_past_the_end_of_the_job
                a_period_holds_the_key_even_if_nothing_is_kept_of_the_job
                a_period_that_is_over_does_not_free_the_key_of_a_live_job
                a_dead_letter_whose_key_has_a_new_holder_is_not_retried
                a_retried_dead_letter_takes_its_key_back two_callers_at_once_with_one_key_make_one_job
                a_full_queue_still_answers_who_holds_a_key
                a_held_key_opens_no_shut_queue_and_excuses_no_wrong_option
                discarding_a_dead_letter_leaves_its_key_to_the_job_that_took_it_since
                a_period_counts_from_the_enqueue_of_a_dead_letter_that_is_started_over
                a_prune_leaves_a_key_to_the_job_that_took_it_when_its_period_was_over
                a_replaced_job_keeps_its_own_options
                a_newcomer_that_does_not_expire_takes_the_expiry_from_the_job_that_it_replaces
                a_revived_job_takes_a_place_in_a_queue_with_a_limit
            ;
            ordering_keys:
                jobs_of_an_ordering_key_run_one_at_a_time_in_the_order_of_their_arrival
                a_batch_of_one_ordering_key_keeps_its_order ordering_keys_do_not_hold_each_other_up
                an_ordering_key_counts_within_its_type_only who_waits_in_line_is_parked_and_uses_no_attempt
                the_head_of_an_ordering_key_can_be_asked_for a_retry_of_the_head_lets_no_job_pass
                a_head_that_lies_in_the_future_is_waited_for
                order_goes_by_arrival_and_not_by_due_time_or_priority
                a_head_that_a_policy_holds_back_is_waited_for a_head_that_is_given_back_stays_the_head
                a_crashed_head_is_run_again_before_the_next a_head_that_dies_does_not_block
                a_head_that_dies_of_crashes_does_not_block
                a_head_that_is_cancelled_while_it_waits_lets_the_next_go
                a_running_head_that_is_cancelled_lets_the_next_go_when_it_ends
                one_that_is_cancelled_in_line_is_passed_over one_that_expires_in_line_is_passed_over
                one_in_line_that_gets_another_priority_keeps_its_place a_head_that_expires_lets_the_next_go
                a_head_whose_expiry_a_claim_meets_lets_the_next_go
                a_head_of_a_type_that_keeps_nothing_lets_the_next_go
                a_head_that_leaves_nothing_among_others_that_do_so_lets_the_next_go
                a_purge_ends_the_whole_ordering_key_and_the_next_one_starts_anew
                a_purge_in_parts_leaves_one_that_may_go a_dead_letter_that_is_started_over_waits_its_turn
                a_dead_letter_alone_in_its_ordering_key_starts_over_at_once
                a_letter_that_its_key_revives_waits_its_turn one_in_line_that_is_replaced_keeps_its_place
                an_operator_cannot_open_the_gate_of_an_ordering_key
                the_gates_of_ordering_keys_are_not_listed_among_those_of_policies
                ends_of_many_ordering_keys_in_one_batch_let_each_next_go a_repeated_end_lets_no_other_job_go
                many_callers_at_once_keep_one_ordering_key_in_order_and_leave_no_job_behind
                an_end_and_a_newcomer_at_once_do_not_leave_the_ordering_key_stuck
            ;
            fairness_keys:
                a_job_keeps_the_fairness_key_it_was_given
                a_fairness_key_with_a_thousand_jobs_does_not_hold_up_one_with_a_single_job
                fairness_keys_take_turns_when_slots_free_one_by_one
                a_big_claim_is_divided_evenly_and_what_one_cannot_use_goes_to_the_others
                turns_go_on_from_claim_to_claim within_a_fairness_key_jobs_leave_by_due_time_and_number
                jobs_without_a_fairness_key_are_one_fairness_key_together
                those_that_came_before_the_first_fairness_key_are_not_forgotten priority_goes_before_fairness_keys
                turns_of_one_priority_are_not_those_of_another one_fairness_key_alone_gets_every_slot
                a_fairness_key_whose_jobs_lie_in_the_future_takes_no_turn
                a_job_with_a_fairness_key_is_never_claimed_before_it_is_due
                many_fairness_keys_that_lie_in_the_future_hide_no_job
                more_fairness_keys_than_a_claim_looks_at_all_come_round a_retried_job_keeps_its_fairness_key
                a_dead_letter_that_is_started_over_keeps_its_fairness_key
                a_job_without_a_fairness_key_that_comes_back_does_not_wait_behind_a_thousand_of_another
                a_job_without_a_fairness_key_that_is_put_off_does_not_wait_behind_a_thousand_of_another
                a_parked_job_takes_its_turn_when_its_gate_opens
                a_job_with_another_priority_takes_its_turn_there what_is_cancelled_or_expires_takes_no_turn
                two_claimers_at_once_get_every_job_once a_job_with_fairness_key_key_and_ordering_key
                a_paused_queue_and_other_types_are_left_alone
                fairness_keys_of_several_types_of_a_queue_take_turns_together
                a_repeat_of_a_claim_by_turns_tells_what_it_holds old_jobs_rise_whatever_their_share
                a_snoozed_job_waits_in_its_line_until_it_is_due
            ;
            claim:
                a_claimed_job_runs_under_its_worker a_claim_counts_an_attempt
                a_claim_carries_the_token_of_its_request a_claimed_job_is_not_claimed_again
                an_unregistered_worker_gets_nothing a_worker_declared_dead_gets_nothing
                a_worker_that_was_let_out_gets_nothing more_urgent_jobs_leave_first
                jobs_of_one_priority_leave_by_due_time
                jobs_due_at_the_same_instant_leave_in_the_order_of_arrival
                queues_are_served_in_the_order_asked_for queues_not_asked_for_are_left_alone
                a_queue_that_does_not_exist_gives_nothing types_not_asked_for_are_left_to_others
                a_few_jobs_behind_many_of_other_types_are_found a_job_is_never_claimed_before_it_is_due
                a_job_is_claimable_exactly_when_it_is_due future_jobs_of_high_priority_hold_no_job_up
                never_more_than_asked_for a_claim_of_nothing_claims_nothing one_limit_covers_all_queues
                two_claimers_at_once_get_every_job_once eight_claimers_at_once_never_share_a_job
                waiting_time_and_age_go_by_the_stores_clock a_paused_queue_gives_nothing
                a_paused_queue_does_not_hold_up_the_next a_resumed_queue_gives_again
                a_pause_with_an_end_ends_by_itself a_shut_queue_still_gives_what_it_has
                a_parked_job_is_not_claimed the_clock_may_step_back_without_harm
                a_claim_of_too_many_queues_is_refused a_claim_is_never_bigger_than_the_limit_of_the_house
                a_queue_named_twice_gives_each_job_once
                jobs_of_several_types_leave_in_their_order_however_many_are_of_one
            ;
            repeats:
                a_repeated_request_gives_what_it_claimed_and_claims_no_more
                a_repeat_of_a_request_that_never_arrived_claims_nothing
                a_first_sending_that_arrives_after_its_repeat_claims_nothing
                a_first_sending_for_a_suspect_after_its_repeat_claims_nothing
                a_first_sending_claims_nothing_however_long_after_its_repeat_it_arrives
                a_request_and_its_repeat_at_once_leave_nothing_held_that_the_repeat_did_not_tell
                a_repeat_does_not_give_what_was_settled_meanwhile
                a_token_of_anothers_claim_gives_a_stranger_nothing
            ;
            boost:
                ten_minutes_raise_a_job_by_one_step a_moment_less_than_ten_minutes_raises_nothing
                a_job_that_leaves_in_its_turn_is_not_called_boosted without_credit_nothing_is_boosted
                boosted_jobs_get_no_more_than_their_share what_has_risen_fills_free_slots_in_its_plain_turn
                no_job_comes_twice_in_one_claim the_oldest_of_the_risen_come_first
                age_counts_from_the_due_time_not_from_the_enqueue the_stored_priority_of_a_boosted_job_stays
            ;
            suspects:
                a_crashed_job_waits_behind_the_suspects_gate an_ordinary_claim_leaves_suspects_alone
                a_claim_of_suspects_leaves_ordinary_jobs_alone suspects_are_claimed_one_at_a_time
                a_suspect_counts_its_attempts_and_crashes a_suspect_of_too_many_crashes_is_left
                a_suspect_that_succeeds_is_done_like_any_other a_suspect_that_fails_stays_a_suspect
                a_suspect_is_not_claimed_before_it_is_due suspects_of_a_paused_queue_are_left
                suspects_of_other_types_are_left the_most_urgent_suspect_comes_first
                a_cancelled_suspect_is_cancelled a_suspect_that_a_policy_held_back_is_a_suspect_again
            ;
            peek:
                an_empty_queue_has_nothing_ahead a_claim_that_leaves_some_says_that_more_is_due
                a_claim_that_takes_all_says_that_no_more_is_due more_may_be_due_in_another_queue
                types_not_asked_for_are_not_ahead a_claim_says_when_the_next_job_falls_due
                the_next_due_time_is_the_nearest_of_all_priorities a_retry_is_ahead_at_its_time
                a_suspect_that_is_due_is_announced a_suspect_that_waits_is_not_announced_as_due
                a_parked_job_is_not_ahead a_paused_queue_has_nothing_due the_end_of_a_pause_lies_ahead
                a_peek_answers_for_each_queue_apart a_peek_claims_nothing
            ;
            settle:
                success_ends_a_job a_result_is_kept_if_its_type_says_so a_result_is_not_kept_by_default
                a_result_over_the_limit_is_not_kept_and_the_output_says_so
                a_result_that_is_not_kept_may_be_of_any_size a_retry_waits_for_its_delay_and_counts_a_failure
                a_snooze_costs_a_hold_and_no_failure parking_takes_the_attempt_back_and_keeps_the_due_time
                burial_makes_a_dead_letter_with_its_error a_handler_may_end_its_job_as_cancelled
                a_job_given_back_is_ready_at_once_with_its_age
                giving_back_what_had_started_costs_an_attempt_and_nothing_else
                giving_back_what_never_started_costs_nothing a_running_attempt_is_shown
                a_finished_attempt_remembers_worker_times_error_and_output
                every_way_to_end_an_attempt_is_remembered_as_itself parking_leaves_no_attempt
                attempts_are_numbered_and_listed_oldest_first the_last_error_stays_after_a_later_success
                nothing_is_kept_of_a_finished_job_without_retention
                a_dead_letter_is_kept_whatever_the_retention a_whole_batch_is_settled_in_its_order
                an_empty_batch_settles_nothing a_batch_of_ends_over_the_limit_is_refused_whole
                progress_is_shown progress_does_not_end_the_attempt
                a_job_that_fails_is_ready_again_exactly_after_its_delay
                an_attempt_without_an_error_is_not_left_behind_by_a_type_that_keeps_nothing
            ;
            fence:
                a_stale_end_of_any_kind_changes_nothing a_stale_end_changes_no_count
                a_stale_success_of_a_type_that_keeps_nothing_is_lost stale_progress_changes_nothing
                the_current_owner_ends_the_job_after_a_stale_try
                a_stale_end_after_the_owners_end_changes_nothing
                an_end_by_a_worker_declared_dead_is_lost_even_without_a_claim_since
                an_end_after_the_lease_but_before_a_rescue_is_taken an_end_with_an_invented_token_is_lost
                an_end_of_a_job_that_never_was_is_lost an_end_of_a_waiting_job_is_lost
                the_token_of_one_claim_ends_only_its_own_jobs a_repeated_end_of_any_kind_is_applied_once
                a_repeated_end_changes_no_count a_repeated_end_is_applied_even_if_the_job_runs_again
                a_repeated_success_is_applied_even_if_nothing_is_kept_of_the_job
                one_stale_end_in_a_batch_spoils_no_other two_ends_at_once_under_one_token_are_one_end
                progress_after_the_end_is_lost an_operators_retry_does_not_bring_an_old_token_back
                two_ends_of_one_job_in_one_batch_are_one_end
                a_repeated_end_is_applied_whatever_became_of_the_job_since
                a_repeated_end_is_applied_even_if_the_next_worker_died_with_the_job
                only_the_last_end_of_a_job_is_remembered
            ;
            retry_and_dead:
                a_dead_letter_is_started_over_with_fresh_counters
                a_dead_letter_started_over_can_be_claimed_and_done
                a_crashed_dead_letter_started_over_is_no_suspect
                the_attempts_of_a_dead_letter_started_over_are_still_shown a_scheduled_job_is_made_due_at_once
                a_job_that_waits_for_its_retry_is_made_due_and_keeps_its_counters a_parked_job_is_let_through
                a_ready_job_needs_no_retry a_running_job_is_not_retried what_has_succeeded_is_not_retried
                what_was_cancelled_is_not_retried a_retry_of_nothing_is_not_found
                a_discarded_dead_letter_is_gone only_dead_letters_are_discarded
                a_discard_of_nothing_is_not_found a_new_priority_changes_the_order
                the_same_priority_changes_nothing only_a_waiting_job_gets_another_priority
                a_priority_for_nothing_is_not_found a_dead_letter_started_over_does_not_expire
            ;
            cancel:
                a_waiting_job_is_cancelled_with_its_reason a_cancelled_job_is_never_claimed
                a_scheduled_job_is_cancelled a_parked_job_is_cancelled_and_its_gate_lets_nothing_through
                a_running_job_is_asked_to_stop_and_goes_on_running a_heartbeat_brings_the_request_to_stop
                a_heartbeat_brings_no_request_to_another_worker
                a_heartbeat_brings_no_request_for_what_has_ended
                a_question_brings_the_request_to_stop_like_a_heartbeat
                a_question_brings_no_request_to_another_worker a_question_is_no_sign_of_life
                whatever_the_handler_returns_a_requested_cancel_wins
                a_requested_cancel_wins_over_an_end_after_a_word_about_progress
                a_requested_cancel_wins_over_the_death_of_the_worker
                a_requested_cancel_wins_over_a_worker_that_leaves a_second_request_to_stop_changes_nothing
                what_has_ended_is_not_cancelled_and_the_answer_says_how_it_ended
                a_cancel_of_nothing_is_not_found nothing_is_kept_of_a_cancelled_job_without_retention
                a_cancel_and_a_claim_at_once_never_both_win
            ;
            expiry:
                an_expired_job_is_cancelled_by_a_sweep an_expired_job_is_cancelled_by_a_claim_that_meets_it
                a_claim_passes_over_expired_jobs_to_good_ones a_job_is_claimed_up_to_its_expiry
                a_running_job_does_not_expire a_parked_job_expires a_scheduled_job_expires
                a_job_that_was_started_once_no_longer_expires
                a_sweep_goes_in_batches_and_says_whether_there_is_more what_has_not_expired_is_left_by_a_sweep
                a_claim_meets_what_has_expired_also_where_jobs_have_fairness_keys
                a_claim_takes_what_is_tried_again_though_it_would_have_expired
            ;
            workers:
                a_registered_worker_is_seen_with_its_card an_identity_registers_only_once
                an_identity_that_was_declared_dead_never_registers_again
                a_heartbeat_raises_the_counter_and_ends_the_silence a_lease_runs_out_by_the_stores_clock
                a_heartbeat_extends_the_lease_from_now a_heartbeat_may_bring_another_length_of_lease
                a_sign_of_life_counts_who_else_is_heard_and_could_do_the_same
                a_sign_of_life_is_told_the_stores_time_and_says_what_its_own_clock_shows
                a_dead_worker_that_sends_a_heartbeat_is_told_so_and_counts_for_no_type
                a_late_heartbeat_extends_until_the_worker_was_declared_dead
                a_heartbeat_after_the_declaration_says_dead_for_ever
                a_worker_that_died_long_ago_stays_dead_when_it_is_forgotten
                a_dead_worker_is_not_forgotten_while_it_holds_a_job a_stranger_is_told_that_it_is_dead
                a_sighting_counts_the_jobs_that_the_worker_holds a_worker_that_leaves_is_no_longer_seen
                a_worker_that_leaves_gives_its_jobs_back_without_cost
                a_worker_that_leaves_takes_no_job_of_another_along the_end_by_a_worker_that_left_is_lost
                leaving_twice_does_no_harm
            ;
            rescue:
                a_dead_workers_job_waits_again a_crash_costs_no_failure_and_keeps_the_due_time
                the_attempt_of_a_dead_worker_is_remembered_as_crashed a_dead_worker_is_no_longer_seen
                a_worker_whose_lease_holds_is_left_alone a_worker_whose_counter_moved_is_left_alone
                a_heartbeat_between_sighting_and_rescue_saves_the_worker
                an_old_job_of_a_live_worker_is_left_alone only_the_named_worker_is_declared_dead
                an_unknown_worker_is_no_error two_rescuers_at_once_charge_one_crash
                a_rescue_goes_in_batches_and_goes_on_without_names
                a_worker_declared_dead_in_a_first_batch_cannot_end_a_job_of_the_next
                the_first_and_second_crash_make_a_suspect
                the_third_crash_makes_a_dead_letter_whatever_the_attempts
                a_dead_letter_by_crashes_names_its_neighbours every_job_that_a_dead_worker_held_is_charged
                the_third_crash_buries_one_job_and_spares_its_former_neighbours
            ;
            maintenance:
                a_job_without_a_handler_is_parked_while_its_queue_is_served
                a_job_of_a_queue_without_workers_just_waits a_job_that_some_worker_handles_is_not_parked
                a_job_waits_for_its_handler_no_longer_once_a_worker_brings_it
                a_worker_of_another_type_lets_no_job_through waiting_for_a_handler_costs_nothing
                a_finished_job_is_kept_for_the_days_of_its_type
                a_job_that_ends_after_a_prune_is_kept_to_its_last_hour_through_all_others
                a_job_that_is_kept_for_months_is_kept_to_the_last_hour_of_a_month
                a_finished_job_past_its_retention_is_gone_with_its_attempts
                a_cancelled_job_past_its_retention_is_gone
                a_job_cancelled_between_two_tries_is_gone_with_its_attempts
                a_dead_letter_that_succeeded_after_all_is_gone_with_its_attempts
                a_dead_letter_that_succeeded_after_all_leaves_nothing_if_its_type_keeps_nothing
                each_type_has_its_own_retention another_retention_does_not_change_what_has_already_ended
                keys_whose_period_is_over_are_pruned_in_batches_too dead_letters_stay_until_they_are_discarded
                unfinished_jobs_are_never_pruned a_prune_goes_in_batches_and_says_whether_there_is_more
                totals_outlive_what_is_pruned a_gate_lets_the_oldest_through_first
                a_gate_lets_no_job_through_that_waits_at_another what_a_gate_let_through_keeps_its_age
                ends_of_one_batch_are_kept_each_for_the_days_of_its_own_type
                a_late_heartbeat_lets_through_what_waited_for_a_handler
                a_sweep_lets_through_what_was_parked_while_the_clock_was_ahead
            ;
            counts:
                an_empty_queue_counts_nothing ready_and_scheduled_jobs_are_counted_apart
                what_is_scheduled_counts_as_ready_once_it_is_due
                jobs_that_fall_due_within_the_minute_are_split_to_the_second a_claimed_job_counts_as_running
                a_success_is_counted a_retry_is_counted_and_the_job_is_scheduled a_snooze_is_no_retry
                a_parked_job_is_counted_apart an_opened_gate_moves_the_count a_job_given_back_counts_as_ready
                a_dead_letter_is_counted_until_it_is_discarded
                a_dead_letter_started_over_is_no_longer_counted_as_dead
                a_revived_backfill_is_no_longer_counted_as_dead a_cancelled_job_is_counted
                a_cancelled_scheduled_job_leaves_the_scheduled a_cancelled_running_job_is_counted_when_it_ends
                an_expired_job_is_counted_as_cancelled an_expired_job_met_by_a_claim_is_counted_as_cancelled
                a_purge_is_counted a_rescued_job_counts_as_parked a_job_buried_by_crashes_is_counted_as_dead
                a_worker_that_leaves_moves_its_counts a_job_made_due_at_once_moves_from_scheduled_to_ready
                a_replaced_job_moves_to_its_new_time kept_and_refused_jobs_are_not_counted
                a_prune_changes_no_count counts_survive_a_long_row_of_mixed_moves
            ;
            queues:
                queues_are_listed_by_priority_and_name a_queue_is_kept_as_it_was_declared
                declaring_a_queue_again_updates_it_and_keeps_its_jobs declaring_a_queue_again_leaves_its_pause
                a_wrong_queue_is_refused_with_the_whole_declaration a_pause_is_shown_with_its_reason_and_end
                a_pause_that_is_over_is_not_shown a_resumed_queue_shows_no_pause a_paused_queue_takes_new_jobs
                a_pause_leaves_running_jobs_alone a_shut_queue_is_shown_as_shut
                acts_on_a_queue_that_does_not_exist_find_nothing
                a_purge_cancels_all_that_waits_and_nothing_that_runs
                a_purge_leaves_dead_letters_and_other_queues
                a_purge_goes_in_batches_and_says_whether_there_is_more
                the_oldest_ready_job_shows_how_far_a_queue_is_behind
                a_job_that_is_not_due_is_not_the_oldest_ready_one
            ;
            types:
                types_are_listed_by_name a_type_is_kept_as_it_was_registered
                registering_a_type_again_updates_it a_type_never_moves_to_another_queue
                a_type_of_an_undeclared_queue_is_refused a_type_may_come_with_its_queue
                a_wrong_type_is_refused_with_the_whole_declaration
                a_type_counts_the_live_workers_that_handle_it a_dead_worker_handles_nothing
                a_type_counts_its_unfinished_jobs a_dead_letter_is_not_unfinished
            ;
            admin_reads:
                a_job_that_never_was_is_nothing a_record_says_when_it_was_read the_engines_now_is_the_clocks
                an_engine_says_what_it_is a_list_has_the_newest_first a_list_shows_jobs_in_every_job_state
                a_listed_job_is_the_record_itself a_list_by_job_state_moves_with_the_clock
                a_list_can_be_of_one_queue a_list_can_be_of_one_type a_list_can_be_of_one_key_past_and_present
                a_list_can_be_of_one_tag a_list_can_be_of_one_correlation a_list_can_be_of_one_group
                filters_of_a_list_all_apply a_page_has_no_more_than_asked_for
                pages_follow_each_other_without_gap_or_repeat a_page_of_finished_and_live_jobs_keeps_the_order
                a_page_is_never_longer_than_the_limit_of_the_house only_the_newest_attempts_are_shown
            ;
            stored_specs:
                fields_of_newer_versions_in_a_queue_survive_a_change_by_an_older_one
                fields_of_newer_versions_in_a_type_and_its_retry_policy_survive_a_change_by_an_older_one
                a_declaration_that_says_what_is_stored_leaves_the_stored_text_as_it_is
                fields_of_newer_versions_in_a_breaker_survive_a_change_by_an_older_one
                fields_of_newer_versions_in_a_schedule_survive_changes_and_firings_by_an_older_one
                fields_of_newer_versions_in_a_completion_trigger_survive_changes_and_firings_by_an_older_one
                an_unreadable_queue_is_an_error_that_names_the_field_and_changes_nothing
                an_unreadable_type_is_an_error_that_names_the_field_and_changes_nothing
                an_unreadable_breaker_is_named_beside_the_others_and_a_reset_replaces_it
            ;
            policies:
                a_fresh_store_has_no_breakers a_breaker_is_kept_as_it_was_written breakers_are_listed_by_name
                a_breaker_is_written_only_over_what_was_read of_many_who_write_at_once_one_succeeds
                a_hundred_claims_and_one_permit_make_one_probe a_claim_is_good_until_its_job_is_settled
                a_claim_is_good_until_its_worker_is_dead_or_gone a_claim_with_another_token_is_not_good
                tokens_are_taken_as_core_decides each_limit_and_key_has_tokens_of_its_own
                who_wants_no_token_only_looks a_batch_of_requests_for_tokens_is_answered_in_order
                of_many_at_once_no_more_get_tokens_than_there_are
                a_limit_that_is_made_faster_keeps_no_caller_waiting_for_the_slower_one
                a_prune_forgets_keys_that_have_saved_up_everything gates_with_waiters_are_listed_page_by_page
                a_gate_is_listed_only_while_a_job_waits_behind_it
                suspects_wait_behind_no_gate_that_is_listed the_oldest_behind_a_gate_come_first
            ;
            leases:
                a_fresh_store_has_no_leases a_lease_without_a_holder_is_taken
                of_many_who_ask_at_once_one_gets_the_lease
                who_comes_second_is_told_who_holds_it_and_for_how_long a_renewal_keeps_a_lease_from_expiring
                an_expired_lease_is_taken_over_with_a_higher_fence
                after_a_takeover_the_old_term_writes_nothing a_forged_term_writes_nothing
                a_term_that_expired_is_over_even_if_no_process_took_the_lease
                a_released_lease_is_free_at_once_and_its_next_fence_is_higher
                a_repeated_request_is_answered_as_the_first_time a_request_twice_at_once_begins_one_term
                a_repeat_of_a_request_whose_term_is_over_takes_nothing
                a_repeated_release_is_answered_as_the_first_time
                a_request_to_step_down_is_told_to_the_holder_until_it_gives_way
                stepping_down_from_a_lease_without_a_holder_changes_nothing
                metadata_survive_renewals_releases_and_takeovers
                a_clock_that_steps_back_keeps_who_lives_and_misses_who_died_one_expiry_later
                the_duty_of_another_process_is_not_touched a_batch_is_answered_in_its_order leases_are_listed_by_name
                calls_about_no_duty_are_answered_with_nothing wrong_calls_are_refused_and_change_nothing
                a_store_keeps_a_limited_number_of_leases a_full_store_forgets_leases_without_a_holder_for_a_month
                a_lease_is_given_back_by_its_request_alone_and_its_metadata_go_to_the_next
                a_lease_that_is_given_back_is_hinted a_request_to_step_down_is_hinted
                leases_go_as_core_decides
            ;
            schedules:
                a_fresh_store_has_no_schedules a_schedule_is_kept_as_it_was_declared
                schedules_are_listed_by_name_page_by_page
                what_is_due_comes_longest_due_first_and_the_next_is_told
                what_is_due_can_be_passed_over_page_by_page
                a_tick_makes_its_job_and_the_schedule_is_due_no_more every_field_of_a_template_reaches_the_job
                of_many_who_fire_one_tick_one_makes_its_job
                a_decision_whose_answer_was_lost_makes_no_second_job
                a_decision_made_before_a_pause_writes_nothing
                a_schedule_that_was_stored_anew_takes_no_old_decision
                a_schedule_stored_by_two_at_once_is_stored_once
                a_tick_that_made_its_job_makes_no_second_one_for_a_month
                jobs_by_hand_are_no_ticks_and_later_ticks_do_not_mind_them
                ticks_of_a_range_make_a_job_each_and_none_twice
                a_job_that_is_refused_does_not_spoil_the_others a_tick_is_left_out_while_the_last_job_is_live
                a_tick_that_is_left_out_is_told_once_by_the_step_that_fires
                a_waiting_job_gives_way_to_that_of_the_next_tick a_running_job_does_not_give_way
                a_waiting_job_does_not_give_way_to_one_that_is_refused
                a_tick_that_was_filled_before_it_was_seen_keeps_its_job
                a_full_queue_lets_in_what_takes_the_place_of_another
                a_queue_that_stays_full_keeps_the_job_that_waits
                a_whole_batch_of_schedules_is_fired_by_one_call wrong_changes_are_refused_whole
                a_store_keeps_a_limited_number_of_schedules a_job_of_a_schedule_is_hinted
            ;
            triggers:
                a_fresh_store_has_no_triggers a_trigger_is_kept_as_it_was_declared
                triggers_are_listed_by_name_page_by_page the_hook_runs_once_when_a_group_has_finished
                every_field_of_a_template_reaches_the_hooks_job it_runs_again_after_the_next_trigger
                it_does_not_run_while_a_job_waits_or_runs a_job_with_a_fairness_key_holds_the_trigger
                a_group_in_which_nothing_ran_does_not_fire a_retry_in_the_future_does_not_hold_the_trigger
                with_wait_for_retries_it_does dead_letters_do_not_hold_it
                a_queue_and_a_type_are_groups_by_themselves
                ready_jobs_of_every_priority_hold_a_queue_and_a_type
                the_hooks_own_job_does_not_belong_to_the_group
                a_trigger_is_looked_at_only_so_often_and_the_last_mark_is_always_followed_by_a_look
                of_many_who_fire_one_trigger_one_makes_its_job
                a_firing_whose_answer_was_lost_makes_no_second_job
                a_firing_decided_before_a_change_writes_nothing_and_the_mark_stays
                who_dies_between_the_end_and_the_hook_leaves_a_mark_that_a_duty_works_off
                a_removed_trigger_takes_its_marks_with_it
                a_hooks_job_that_is_refused_is_told_and_not_tried_again a_full_queue_refuses_the_hooks_job
                a_trigger_stored_by_two_at_once_is_stored_once wrong_triggers_are_refused_and_nothing_is_stored
                a_store_keeps_a_limited_number_of_triggers a_mark_is_hinted
            ;
            trigger_marks:
                cancelling_a_ready_job_marks expiry_marks a_purge_marks parking_marks
                parking_for_want_of_a_handler_marks snoozing_and_giving_back_mark_as_far_as_the_job_cannot_run
                a_job_that_is_put_off_by_its_key_marks a_suspect_holds_the_trigger_and_its_burial_marks
                a_line_of_an_ordering_key_holds_the_trigger jobs_that_leave_nothing_behind_mark_too
                a_settled_batch_marks_once_for_all_of_it
                a_retry_and_an_end_in_one_batch_mark_the_triggers_that_wait_for_retries_too
                a_clock_that_steps_back_does_not_keep_a_trigger_from_being_looked_at
            ;
            trigger_groups:
                triggers_of_one_group_do_not_fire_each_other any_other_change_of_a_trigger_keeps_its_marks
                a_hooks_job_holds_and_fires_a_trigger_of_another_group
                the_job_of_a_removed_trigger_is_a_job_like_any_other
                a_trigger_that_watches_something_else_forgets_the_marks_of_what_it_watched
                a_hooks_job_that_is_started_over_does_not_belong_to_the_group
            ;
            rollups:
                a_fresh_store_has_no_rollups_and_has_booked_all_of_nothing
                totals_are_booked_once_on_the_minute_of_the_round
                each_death_of_a_job_that_is_started_over_again_and_again_is_booked
                a_death_and_a_start_over_in_one_round_are_one_death
                what_is_seen_is_added_to_the_minute_in_which_it_was
                of_two_who_roll_up_from_one_version_one_is_overtaken
                a_change_that_is_repeated_after_a_lost_answer_is_refused_and_harmless
                what_is_appended_during_a_roll_up_waits_for_the_next_round
                a_total_that_went_down_books_nothing_and_counts_on_from_there
                a_type_that_is_gone_is_forgotten_by_the_watermark
                a_limited_number_of_samples_is_read_at_once_and_the_rest_stays
                without_a_roll_up_only_the_newest_samples_are_kept
                samples_that_drop_out_during_a_roll_up_take_no_others_with_them
                a_damaged_sample_is_told_and_spoils_nothing_else
                samples_that_are_too_many_too_long_or_too_old_are_refused
                rollups_past_their_time_are_forgotten_oldest_first rollups_are_read_by_range_queue_and_type
                rollups_are_read_page_by_page_in_order
                many_who_append_and_roll_up_at_once_lose_nothing_and_book_nothing_twice
            ;
            shown_times:
                an_attempt_that_is_reported_late_ended_when_its_handler_did
                a_job_that_was_asked_to_stop_ended_with_its_attempt_and_now_if_there_was_none
                a_late_end_under_a_key_and_one_that_leaves_no_history_are_written
                a_dead_letter_that_is_started_over_keeps_the_times_of_its_attempts
                a_late_report_delays_a_retry_from_the_stores_now
                a_job_for_an_instant_in_the_past_waits_only_since_it_was_enqueued
                a_delayed_job_waits_only_since_it_is_due
                the_longest_wait_of_a_queue_counts_from_the_later_of_due_and_enqueued
            ;
            hints:
                a_new_job_is_hinted a_new_job_for_later_is_hinted every_queue_of_a_batch_is_hinted
                a_job_given_back_is_hinted a_retry_is_hinted a_snooze_is_hinted a_rescue_is_hinted
                a_worker_that_leaves_with_jobs_is_hinted a_dead_letter_started_over_is_hinted
                an_opened_gate_is_hinted a_resumed_queue_is_hinted a_replaced_job_is_hinted
                a_worker_that_brings_a_missing_handler_is_hinted a_request_to_stop_is_hinted_with_its_claim
                every_listener_is_told a_listener_without_an_owner_is_let_go
            ;
        }
    };
}
