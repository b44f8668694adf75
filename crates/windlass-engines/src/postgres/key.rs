//! Keys, and the jobs that hold them. A keyed job is enqueued under the lock of its key, and ends under it.
//! Every transaction locks keys before jobs, each in order, so that no two of them form a deadlock.

use std::collections::{BTreeSet, HashMap, HashSet};

use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{Accepted, EnqueueAnswer, EnqueueRequest, NewJob};
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::key::{HolderStage, KeyClaim, KeyHolder, KeyScope, KeyVerdict, resolve};
use windlass_core::names::{OrderingKey, TypeName};

use super::Store;
use super::catalogue::Catalogue;
use super::conn::Tx;
use super::counts::{Deltas, Depths};
use super::enqueue::{Columns, Tried, Unstorable, judge};
use super::ordering_keys::Marked;
use super::store_error::StoreResult;
use super::value::{
    Bits, Instant, Param, instant, instants, maybe, number, numbers, small_number, text, texts, uuid,
};
use crate::kit::{CountedState, JobOptions, Total, to_json};

/// A key within its type.
pub(super) type TypeKey = (String, String);

/// Keys that a transaction has locked, and their holders.
#[derive(Debug, Default)]
pub(super) struct LockedKeys(HashMap<TypeKey, Option<KeyHolder>>);

impl LockedKeys {
    pub(super) fn has(&self, key: &TypeKey) -> bool {
        self.0.contains_key(key)
    }

    fn holder(&self, key: &TypeKey) -> Option<&KeyHolder> {
        self.0.get(key)?.as_ref()
    }

    fn jobs(&self) -> Vec<i64> {
        let ids: BTreeSet<_> = self.0.values().flatten().map(|holder| holder.job.0).collect();
        ids.into_iter().collect()
    }
}

/// The changes of a batch with keys.
#[derive(Debug, Default)]
struct Keyed {
    answers: Vec<EnqueueAnswer>,
    new: Columns,
    new_ids: Vec<i64>,
    new_keys: Vec<Option<String>>,
    new_ordering_key: Vec<Option<String>>,
    new_gates: Vec<Option<String>>,
    /// Ordering keys of enqueued jobs.
    marked: Marked,
    holding: Holding,
    deltas: Deltas,
    depths: Depths,
    /// The store's now by which the jobs are judged, and at which they are enqueued.
    now: Option<Instant>,
}

/// Keys to give to jobs, column by column.
#[derive(Debug, Default)]
pub(super) struct Holding {
    types: Vec<String>,
    keys: Vec<String>,
    jobs: Vec<i64>,
    scopes: Vec<String>,
    until: Vec<Option<Instant>>,
}

impl Holding {
    pub(super) fn push(&mut self, key: TypeKey, job: JobId, scope: KeyScope, enqueued_at: Timestamp) {
        self.types.push(key.0);
        self.keys.push(key.1);
        self.jobs.push(job.0);
        self.scopes.push(to_json(&scope));
        self.until.push(maybe(scope.held_until(enqueued_at)));
    }
}

impl Store {
    /// Stores a batch in which some jobs have keys, under the locks of those keys.
    pub(super) async fn enqueue_keyed(
        &self,
        request: &EnqueueRequest,
        catalogue: &Catalogue,
        unstorable: &Unstorable,
    ) -> StoreResult<Tried> {
        let depths = self.depths(&request.jobs, catalogue).await?;
        let tx = self.work.begin().await?;
        let tried = self.enqueue_keyed_in(&tx, request, catalogue, unstorable, depths).await;
        let (tried, depths) = tx.end(tried).await.map_err(key_is_held)?;
        self.remember_depths(depths);
        self.advance_after(&tried, &request.jobs).await;
        Ok(tried)
    }

    /// Releases enqueued jobs that come first in their ordering keys. The ordering key of a revived job is
    /// in its own row.
    async fn advance_after(&self, tried: &Tried, jobs: &[NewJob]) {
        let Tried::Stored(answers) = tried else { return };
        let of_ordering_key =
            jobs.iter().filter_map(|new| Some((new.job_type.clone(), new.ordering_key.clone()?)));
        let is_news = |id| answers.iter().any(|answer| answer.job() == Ok(id));
        self.advance_keys(&of_ordering_key.collect(), is_news).await;
        if answers.iter().any(|answer| matches!(answer, EnqueueAnswer::Revived(_)))
            && let Err(fault) = self.handle_marks().await
        {
            tracing::debug!(?fault, "advancing ordering keys failed; the next scan tries again");
        }
    }

    /// Runs an enqueue, and rolls it back.
    pub(super) async fn try_out(&self, request: EnqueueRequest) -> StoreResult<()> {
        let catalogue = self.catalogue();
        let depths = self.depths(&request.jobs, &catalogue).await?;
        let tx = self.work.begin().await?;
        let tried = self.enqueue_keyed_in(&tx, &request, &catalogue, &Unstorable::new(), depths).await;
        tx.rollback().await;
        tried.map(drop)
    }

    async fn enqueue_keyed_in(
        &self,
        tx: &Tx,
        request: &EnqueueRequest,
        catalogue: &Catalogue,
        unstorable: &Unstorable,
        depths: Depths,
    ) -> StoreResult<(Tried, Depths)> {
        let (now, name) = (self.now_param(), Bits::from(request.request));
        let params = [instant(&now), uuid(&name), number(&catalogue.version)];
        let rows = tx.query(&self.sql.open_receipt, &params).await?;
        let Some(row) = rows.first() else { return Ok((Tried::Stale, depths)) };
        if row.try_get::<_, i64>(0)? != catalogue.version {
            return Ok((Tried::Stale, depths));
        }
        if row.try_get::<_, Option<Instant>>(1)?.is_none() {
            return Ok((Tried::Repeated, depths));
        }
        let keys = key_list(&request.jobs);
        self.reserve_keys(tx, &keys).await?;
        let locked = self.lock_keys(tx, &keys, false).await?;
        let mut keyed = Keyed { depths, ..Keyed::default() };
        self.judge_keyed(tx, &request.jobs, catalogue, unstorable, locked, &mut keyed).await?;
        self.write_keyed(tx, request, &mut keyed, &keys).await?;
        Ok((Tried::Stored(keyed.answers), keyed.depths))
    }

    /// Makes sure that there is a row for each key, and locks it. Waits for a transaction that is about to
    /// take one of them.
    async fn reserve_keys(&self, tx: &Tx, keys: &BTreeSet<TypeKey>) -> StoreResult<()> {
        let (types, names) = key_columns(keys);
        tx.query(&self.sql.reserve_keys, &[texts(&types), texts(&names)]).await?;
        Ok(())
    }

    /// Locks keys in order, and reads their holders. With `skip`, keys that another transaction has locked
    /// are left out.
    pub(super) async fn lock_keys(
        &self,
        tx: &Tx,
        keys: &BTreeSet<TypeKey>,
        skip: bool,
    ) -> StoreResult<LockedKeys> {
        if keys.is_empty() {
            return Ok(LockedKeys::default());
        }
        let (types, names) = key_columns(keys);
        let statement = if skip { &self.sql.lock_free_keys } else { &self.sql.lock_keys };
        let rows = tx.query(statement, &[texts(&types), texts(&names)]).await?;
        let mut locked = LockedKeys::default();
        for row in &rows {
            let job: Option<i64> = row.try_get(2)?;
            let scope: Option<&str> = row.try_get(3)?;
            let until: Option<Instant> = row.try_get(4)?;
            let holder = job.map(|job| KeyHolder {
                job: JobId(job),
                stage: HolderStage::Ended,
                scope: scope.and_then(|scope| serde_json::from_str(scope).ok()).unwrap_or_default(),
                until: until.map(|until| until.0),
            });
            locked.0.insert((row.try_get(0)?, row.try_get(1)?), holder);
        }
        self.find_stages(tx, &mut locked).await?;
        Ok(locked)
    }

    /// Returns which of these keys have a row, locked or not.
    pub(super) async fn existing_keys(
        &self,
        tx: &Tx,
        keys: &BTreeSet<TypeKey>,
    ) -> StoreResult<HashSet<TypeKey>> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        let (types, names) = key_columns(keys);
        let rows = tx.query(&self.sql.existing_keys, &[texts(&types), texts(&names)]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Reads the stages of the holders. It is a statement of its own, after the locks: an earlier answer
    /// may be out of date.
    async fn find_stages(&self, tx: &Tx, locked: &mut LockedKeys) -> StoreResult<()> {
        let jobs = locked.jobs();
        if jobs.is_empty() {
            return Ok(());
        }
        let rows = tx.query(&self.sql.stages, &[numbers(&jobs)]).await?;
        let mut stages = HashMap::new();
        for row in &rows {
            let stage = match row.try_get(1)? {
                "waiting" => HolderStage::Waiting,
                "running" => HolderStage::Running,
                _ => HolderStage::Dead,
            };
            stages.insert(JobId(row.try_get(0)?), stage);
        }
        for holder in locked.0.values_mut().flatten() {
            holder.stage = stages.get(&holder.job).copied().unwrap_or(HolderStage::Ended);
        }
        Ok(())
    }

    /// Judges the jobs one after the other, each with what the earlier ones did to the keys.
    async fn judge_keyed(
        &self,
        tx: &Tx,
        jobs: &[NewJob],
        catalogue: &Catalogue,
        unstorable: &Unstorable,
        mut locked: LockedKeys,
        keyed: &mut Keyed,
    ) -> StoreResult<()> {
        let (ids, now) = self.take_ids(tx, jobs.len()).await?;
        keyed.now = Some(Instant(now));
        let mut ids = ids.into_iter();
        for (position, new) in jobs.iter().enumerate() {
            if let Some(refusal) = unstorable.get(&position) {
                keyed.answers.push(EnqueueAnswer::Refused(refusal.clone()));
                continue;
            }
            let claim = new.key.as_ref();
            let key = claim.map(|claim| type_key(&new.job_type, claim));
            let verdict = self.verdict(tx, new, &mut locked, keyed, now).await?;
            let accepted = match judge(new, catalogue, verdict, &mut keyed.depths, now) {
                Ok(accepted) => accepted,
                Err(why) => {
                    keyed.answers.push(EnqueueAnswer::Refused(why));
                    continue;
                }
            };
            let answer = match verdict {
                KeyVerdict::Insert => {
                    let id = JobId(ids.next().expect("as many ids were taken as there are jobs"));
                    keyed.insert(id, new, &accepted, catalogue, now);
                    if let (Some(key), Some(claim)) = (key, claim) {
                        locked.0.insert(key, Some(holder_of(id, claim, now)));
                    }
                    EnqueueAnswer::New(id)
                }
                KeyVerdict::Keep(id) => EnqueueAnswer::Duplicate(id),
                KeyVerdict::Replace(id) => {
                    self.renew(tx, id, new, &accepted, now, &mut keyed.deltas).await?;
                    EnqueueAnswer::Replaced(id)
                }
                KeyVerdict::Revive(id) => {
                    self.write_new(tx, keyed).await?;
                    self.start_over(tx, id, accepted.due, &mut keyed.deltas).await?;
                    self.renew(tx, id, new, &accepted, now, &mut keyed.deltas).await?;
                    if let Some(holder) = key.and_then(|key| locked.0.get_mut(&key)?.as_mut()) {
                        holder.stage = HolderStage::Waiting;
                    }
                    EnqueueAnswer::Revived(id)
                }
            };
            keyed.answers.push(answer);
        }
        Ok(())
    }

    /// Core's decision on the key of a new job. A holder that is to be replaced is locked first: a worker
    /// may claim it at any moment, and then it is too late.
    async fn verdict(
        &self,
        tx: &Tx,
        new: &NewJob,
        locked: &mut LockedKeys,
        keyed: &mut Keyed,
        now: Timestamp,
    ) -> StoreResult<KeyVerdict> {
        let Some(claim) = &new.key else { return Ok(KeyVerdict::Insert) };
        let key = type_key(&new.job_type, claim);
        loop {
            let verdict = resolve(locked.holder(&key), claim.on_conflict, now);
            let KeyVerdict::Replace(id) = verdict else { return Ok(verdict) };
            // A job that an earlier job of this very batch enqueued is not in the table yet.
            self.write_new(tx, keyed).await?;
            if self.lock_jobs(tx, &[id.0]).await?.iter().any(|live| !live.runs) {
                return Ok(verdict);
            }
            self.find_stages(tx, locked).await?;
        }
    }

    /// Takes ids for new jobs, and the store's now. It is read once the keys are locked, since waiting for
    /// a lock may take long.
    async fn take_ids(&self, tx: &Tx, count: usize) -> StoreResult<(Vec<i64>, Timestamp)> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = tx.query(&self.sql.take_ids, &[number(&count)]).await?;
        let Some(row) = rows.first() else { return Ok((Vec::new(), self.estimated_now())) };
        let now = self.now_param().map_or_else(|| row.try_get(1), Ok)?;
        Ok((row.try_get::<_, Option<_>>(0)?.unwrap_or_default(), now.0))
    }

    /// Writes the jobs that were judged to be new so far, and gives them their keys.
    async fn write_new(&self, tx: &Tx, keyed: &mut Keyed) -> StoreResult<()> {
        let new = std::mem::take(&mut keyed.new);
        let (ids, keys) = (std::mem::take(&mut keyed.new_ids), std::mem::take(&mut keyed.new_keys));
        if !ids.is_empty() {
            let now = keyed.now;
            let (ordering_key, gates) =
                (std::mem::take(&mut keyed.new_ordering_key), std::mem::take(&mut keyed.new_gates));
            let head: [Param<'_>; 3] = [instant(&now), numbers(&ids), texts(&keys)];
            let tail: [Param<'_>; 2] = [texts(&ordering_key), texts(&gates)];
            let params: Vec<_> = head.into_iter().chain(new.params()).chain(tail).collect();
            tx.query(&self.sql.insert_jobs, &params).await?;
            // A hint: if this is rolled back, claims find nothing there.
            self.claim_cursors().found_fairness_keys(&new.lines);
        }
        self.mark_ordering_key(tx, &std::mem::take(&mut keyed.marked)).await?;
        self.hold_keys(tx, &std::mem::take(&mut keyed.holding)).await
    }

    /// Gives jobs their keys. The caller has locked the keys and has made sure that no other job holds
    /// them.
    pub(super) async fn hold_keys(&self, tx: &Tx, holding: &Holding) -> StoreResult<()> {
        if holding.jobs.is_empty() {
            return Ok(());
        }
        let params = [
            texts(&holding.types),
            texts(&holding.keys),
            numbers(&holding.jobs),
            texts(&holding.scopes),
            instants(&holding.until),
        ];
        tx.query(&self.sql.hold_keys, &params).await?;
        Ok(())
    }

    async fn write_keyed(
        &self,
        tx: &Tx,
        request: &EnqueueRequest,
        keyed: &mut Keyed,
        keys: &BTreeSet<TypeKey>,
    ) -> StoreResult<()> {
        self.write_new(tx, keyed).await?;
        let (types, names) = key_columns(keys);
        tx.query(&self.sql.drop_reserved_keys, &[texts(&types), texts(&names)]).await?;
        let answers = to_json(&keyed.answers);
        tx.query(&self.sql.close_receipt, &[uuid(&Bits::from(request.request)), text(&answers)]).await?;
        self.add_counts(tx, &keyed.deltas).await
    }

    /// Writes the values of a new job to the waiting job that holds its key.
    async fn renew(
        &self,
        tx: &Tx,
        id: JobId,
        new: &NewJob,
        accepted: &Accepted,
        now: Timestamp,
        deltas: &mut Deltas,
    ) -> StoreResult<()> {
        let live = self.lock_jobs(tx, &[id.0]).await?;
        let Some(mut live) = live.into_iter().next().filter(|live| !live.runs) else { return Ok(()) };
        let options = std::mem::take(&mut live.options);
        let options = JobOptions { label: new.label.clone(), ..options }.to_column();
        let (payload, level) = (new.payload.as_str(), i32::from(accepted.priority.level()));
        let (due_at, expires_at) = (Instant(accepted.due), maybe(accepted.expires_at));
        let params = [
            number(&id.0),
            text(&payload),
            instant(&due_at),
            small_number(&level),
            instant(&expires_at),
            text(&options),
        ];
        tx.query(&self.sql.replace_job, &params).await?;
        let (from, to) = (live.counted_state(), CountedState::waiting(accepted.due, live.gate.is_some()));
        deltas.moved((&live.job_type, &live.queue), from, to);
        self.mark_put_off(tx, &live, accepted.due, now).await
    }

    /// Frees the keys of jobs that have ended in this way, unless they are to be held longer. The key may
    /// have passed to another job while this one was dead.
    pub(super) async fn free_keys(
        &self,
        tx: &Tx,
        ended: &[(TypeKey, JobId, HolderStage)],
        locked: &LockedKeys,
        now: Timestamp,
    ) -> StoreResult<()> {
        let mut freed = BTreeSet::new();
        for (key, job, stage) in ended {
            let holder = locked.holder(key).filter(|holder| holder.job == *job);
            if holder.is_some_and(|holder| !(KeyHolder { stage: *stage, ..*holder }).holds(now)) {
                freed.insert(key.clone());
            }
        }
        if freed.is_empty() {
            return Ok(());
        }
        let (types, names) = key_columns(&freed);
        tx.query(&self.sql.free_keys, &[texts(&types), texts(&names)]).await?;
        Ok(())
    }

    /// Returns the other job that holds a dead job's key now.
    pub(super) async fn other_holder(
        &self,
        tx: &Tx,
        id: JobId,
        key: &TypeKey,
        now: Timestamp,
    ) -> StoreResult<Option<JobId>> {
        let keys = BTreeSet::from([key.clone()]);
        self.reserve_keys(tx, &keys).await?;
        let locked = self.lock_keys(tx, &keys, false).await?;
        match resolve(locked.holder(key), windlass_core::key::OnConflict::Keep, now) {
            KeyVerdict::Keep(holder) if holder != id => Ok(Some(holder)),
            _ => Ok(None),
        }
    }
}

impl Keyed {
    fn insert(
        &mut self,
        id: JobId,
        new: &NewJob,
        accepted: &Accepted,
        catalogue: &Catalogue,
        now: Timestamp,
    ) {
        self.new.push(new, accepted, catalogue);
        self.new_ids.push(id.0);
        self.new_keys.push(new.key.as_ref().map(|claim| claim.key.to_string()));
        if let Some(claim) = &new.key {
            self.holding.push(type_key(&new.job_type, claim), id, claim.scope, now);
        }
        let gate =
            new.ordering_key.as_ref().map(|ordering_key| Gate::ordering_key(&new.job_type, ordering_key));
        self.new_ordering_key.push(new.ordering_key.as_ref().map(OrderingKey::to_string));
        self.new_gates.push(gate.as_ref().map(Gate::to_string));
        self.marked
            .extend(new.ordering_key.iter().map(|ordering_key| (new.job_type.clone(), ordering_key.clone())));
        let kind = (&new.job_type, &accepted.queue);
        self.deltas.moved(kind, CountedState::Outside, CountedState::waiting(accepted.due, gate.is_some()));
        self.deltas.total(kind, Total::Enqueued);
    }
}

fn holder_of(job: JobId, claim: &KeyClaim, now: Timestamp) -> KeyHolder {
    KeyHolder { job, stage: HolderStage::Waiting, scope: claim.scope, until: claim.scope.held_until(now) }
}

fn type_key(job_type: &TypeName, claim: &KeyClaim) -> TypeKey {
    (job_type.to_string(), claim.key.to_string())
}

fn key_list(jobs: &[NewJob]) -> BTreeSet<TypeKey> {
    jobs.iter().filter_map(|new| Some(type_key(&new.job_type, new.key.as_ref()?))).collect()
}

fn key_columns(keys: &BTreeSet<TypeKey>) -> (Vec<&str>, Vec<&str>) {
    keys.iter().map(|(job_type, key)| (job_type.as_str(), key.as_str())).unzip()
}

/// The error when another session's open transaction holds one of the keys for longer than the lock
/// timeout.
fn key_is_held(fault: super::store_error::StoreError) -> super::store_error::StoreError {
    if !fault.is_locked() {
        return fault;
    }
    let why =
        "another open transaction has enqueued a job with one of these keys; try again when it has ended";
    windlass_core::error::EngineError::Busy { why: why.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use tokio_postgres::NoTls;

    use super::super::sql::{Statements, in_schema};
    use super::super::{PostgresEngine, PostgresOptions};

    /// Creates a database whose collation sorts "a" before "B", as that of most servers does.
    async fn url_of_a_speaking_database() -> String {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let name = format!("speaking_{:016x}", fastrand::u64(..));
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the server is up");
        tokio::spawn(connection);
        let make =
            format!("CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'");
        client.batch_execute(&make).await.expect("a server with ICU");
        let (server, _) = url.rsplit_once('/').expect("the URL of a database");
        format!("{server}/{name}")
    }

    #[tokio::test]
    async fn keys_are_locked_in_the_order_of_their_bytes_whatever_the_language_of_the_database() {
        let url = url_of_a_speaking_database().await;
        let options = PostgresOptions { listen: false, ..PostgresOptions::default() };
        PostgresEngine::connect(&url, options).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let fill = "INSERT INTO windlass.job_keys (job_type, key) VALUES ('work', 'a'), ('work', 'B')";
        client.batch_execute(fill).await.unwrap();
        let names: Vec<String> = sorted_by(&client, "SELECT key FROM windlass.job_keys ORDER BY key").await;
        assert_eq!(names, ["a", "B"], "the database itself sorts as people do");
        let statements = Statements::all();
        for name in ["lock_keys", "lock_free_keys"] {
            let (_, text) = statements.iter().find(|(other, _)| *other == name).unwrap();
            let (types, keys) = (vec!["work"; 2], vec!["a", "B"]);
            let rows = client.query(&in_schema(text, "windlass"), &[&types, &keys]).await.unwrap();
            let locked: Vec<String> = rows.iter().map(|row| row.get(1)).collect();
            assert_eq!(locked, ["B", "a"], "{name}");
        }
    }

    #[tokio::test]
    async fn what_waits_for_a_handler_is_seen_by_a_sweep_whatever_the_language_of_the_database() {
        let url = url_of_a_speaking_database().await;
        let options = PostgresOptions { listen: false, ..PostgresOptions::default() };
        PostgresEngine::connect(&url, options).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let fill = "INSERT INTO windlass.queues (name, spec, priority) VALUES ('main', '{}', 5);
            INSERT INTO windlass.job_types (name, queue, spec, max_attempts, retention_days, keep_result)
            VALUES ('work', 'main', '{}', 5, 7, false);
            INSERT INTO windlass.delayed_jobs (id, scheduled_at, created_at, priority, queue, job_type, payload, gate)
            VALUES (nextval('windlass.job_ids'), now(), now(), 5, 'main', 'work', '{}', 'no-handler:work')";
        client.batch_execute(fill).await.unwrap();
        let statements = Statements::all();
        let (_, text) = statements.iter().find(|(name, _)| *name == "to_sweep").unwrap();
        let (now, queues) = (None::<std::time::SystemTime>, vec!["main"]);
        let row = client.query_one(*text, &[&now, &0_i64, &queues]).await.unwrap();
        assert!(row.get::<_, bool>(4), "a parked job is reported");
    }

    async fn sorted_by(client: &tokio_postgres::Client, text: &str) -> Vec<String> {
        client.query(text, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}
