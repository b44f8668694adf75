//! How this process learns that there is something to claim. Its own writes tell it at once. Those of others wake it by
//! a notification, if it has said that it waits: each costs the whole server a lock at commit, so nobody sends one that
//! nobody waits for. Under both lies a look, about once a second, one statement for all queues.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Moment};

use windlass_core::claim::{ClaimRequest, Outlook, Suspects};
use windlass_core::engine::Hint;
use windlass_core::job::JobId;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::priority::Priority;

use super::Store;
use super::conn::Conn;
use super::fault::Step;
use super::position::{LongLook, Place, Scope};
use super::row::to_json;
use super::value::{Instant, text, texts};

/// A look takes at most this part of the time, however much it has to walk over.
const LOOK_PART: u32 = 50;
/// A look that takes so long has walked over thousands of rows, and claims should not.
const LONG_LOOK: Duration = Duration::from_millis(5);
/// A queue from which nothing was claimed for this long is no longer looked at: workers ask at least once a day.
const IN_USE_FOR: Duration = Duration::from_secs(25 * 60 * 60);
/// A mark is written again before others take it for forgotten.
const MARK_AGAIN: Duration = Duration::from_secs(20);
/// Somebody else is woken at most this often for one queue.
const WAKE_NEXT_EVERY: Duration = Duration::from_millis(20);

/// For which queues this process waits, as far as it has told.
#[derive(Debug, Default)]
pub(super) struct Appetite {
    /// Queues whose last claim brought less than was asked for, and the types that were asked for.
    hungry: HashMap<QueueName, BTreeSet<TypeName>>,
    /// Queues that are marked in the store, and since when.
    marked: HashMap<QueueName, Moment>,
    /// When somebody else was last woken for a queue.
    woke_next: HashMap<QueueName, Moment>,
}

/// What to tell the store.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    mark: Vec<QueueName>,
    unmark: Vec<QueueName>,
    /// Queues in which others are to be woken, and the types that are waited for there, in JSON.
    wake_next: Vec<(QueueName, String)>,
}

impl Appetite {
    /// A claim of these queues brought all that was asked for, or less.
    fn ate(&mut self, request: &ClaimRequest, is_full: bool, more: bool, now: Moment) -> Told {
        let mut told = Told::default();
        for queue in &request.queues {
            if is_full {
                self.marked.remove(queue);
                // Whether or not this process still knows of a mark: it may have been forgotten here and not there.
                if self.hungry.remove(queue).is_some() {
                    told.unmark.push(queue.clone());
                }
                if more && self.may_wake_next(queue, now) {
                    told.wake_next.push((queue.clone(), to_json(&request.types)));
                }
            } else if self.wants_more(queue, &request.types) || self.is_mark_old(queue, now) {
                self.marked.insert(queue.clone(), now);
                told.mark.push(queue.clone());
            }
        }
        told
    }

    /// Notes what is wanted; whether that is more than before.
    fn wants_more(&mut self, queue: &QueueName, types: &[TypeName]) -> bool {
        let wanted = self.hungry.entry(queue.clone()).or_default();
        let before = wanted.len();
        wanted.extend(types.iter().cloned());
        wanted.len() > before
    }

    fn is_mark_old(&self, queue: &QueueName, now: Moment) -> bool {
        self.marked.get(queue).is_none_or(|since| now.duration_since(*since) >= MARK_AGAIN)
    }

    fn may_wake_next(&mut self, queue: &QueueName, now: Moment) -> bool {
        let last = self.woke_next.get(queue);
        let may = last.is_none_or(|last| now.duration_since(*last) >= WAKE_NEXT_EVERY);
        if may {
            self.woke_next.insert(queue.clone(), now);
        }
        may
    }

    /// Marks that must be written again.
    fn old_marks(&mut self, now: Moment) -> Vec<QueueName> {
        let old: Vec<_> = self.hungry.keys().filter(|queue| self.is_mark_old(queue, now)).cloned().collect();
        old.iter().for_each(|queue| _ = self.marked.insert(queue.clone(), now));
        old
    }

    /// Nobody waits here any more. Gives the queues whose marks must go.
    fn stop(&mut self) -> Vec<QueueName> {
        self.marked.clear();
        self.hungry.drain().map(|(queue, _)| queue).collect()
    }

    /// All marks are gone with a crash of the server, or with a connection that may have been to another one.
    pub(super) fn forget_marks(&mut self) {
        self.marked.clear();
    }

    /// Whether this process waits for jobs of a type and has told so.
    fn waits_for(&self, queue: &QueueName, job_type: &str) -> bool {
        let types = self.hungry.get(queue).filter(|_| self.marked.contains_key(queue));
        types.is_some_and(|types| types.iter().any(|wanted| wanted.as_str() == job_type))
    }

    /// What is still to be told: what changed its mind meanwhile is told by whoever comes later.
    fn still_true(&self, told: &Told) -> Told {
        let waits = |queue: &&QueueName| self.hungry.contains_key(*queue);
        Told {
            mark: told.mark.iter().filter(waits).cloned().collect(),
            unmark: told.unmark.iter().filter(|queue| !waits(queue)).cloned().collect(),
            wake_next: told.wake_next.clone(),
        }
    }

    /// The types that are waited for in a queue, as the store takes them.
    fn types_of(&self, queue: &QueueName) -> String {
        to_json(&self.hungry.get(queue).cloned().unwrap_or_default())
    }
}

impl Store {
    /// Whether an enqueue of this type wakes this very process, so that no other need be woken.
    pub(super) fn wakes_itself(&self, queue: &QueueName, job_type: &str) -> bool {
        self.appetite().waits_for(queue, job_type)
    }

    /// Notes whether a claim brought all that was asked for, and tells the store if that changes anything.
    pub(super) fn note_appetite(&self, request: &ClaimRequest, is_full: bool, outlook: Outlook) {
        if !self.listens || request.suspects != Suspects::LeaveOut || request.limit == 0 {
            return;
        }
        let told = self.appetite().ate(request, is_full, outlook.more_due, Moment::now());
        if told != Told::default()
            && let Some(store) = self.myself.upgrade()
        {
            tokio::spawn(async move { store.tell_store(told).await });
        }
    }

    async fn tell_store(self: Arc<Self>, told: Told) {
        let done = self.write_appetite(&told).await;
        if let Err(fault) = done {
            // Polling finds what no notification tells of.
            tracing::debug!(?fault, "the store was not told who waits");
            self.appetite().forget_marks();
        }
        for queue in &told.mark {
            self.listeners.tell(&Hint::Queue(queue.clone()));
        }
        if told.mark.is_empty() {
            return;
        }
        let mut waited = Duration::ZERO;
        for after in &self.looks_after_mark {
            // may sleep: a caller may have looked for marks just before ours was there, and commits a little later.
            tokio::time::sleep(after.saturating_sub(waited)).await;
            waited = *after;
            told.mark.iter().for_each(|queue| self.listeners.tell(&Hint::Queue(queue.clone())));
        }
    }

    /// One at a time, each with what is true by then: two that cross would leave the older word standing.
    async fn write_appetite(&self, told: &Told) -> Step<()> {
        let conn = self.work.get().await?;
        let _turn = self.telling.lock().await;
        let told = self.appetite().still_true(told);
        let own = self.channels.own();
        let names = |queues: &[QueueName]| queues.iter().map(ToString::to_string).collect::<Vec<_>>();
        if !told.mark.is_empty() {
            let queues = names(&told.mark);
            let types: Vec<_> = told.mark.iter().map(|queue| self.appetite().types_of(queue)).collect();
            let params = [texts(&queues), text(&own), texts(&types)];
            conn.write(&self.sql.mark_waiting, &params).await?;
        }
        if !told.unmark.is_empty() {
            conn.write(&self.sql.unmark_waiting, &[texts(&names(&told.unmark)), text(&own)]).await?;
        }
        for (queue, types) in &told.wake_next {
            conn.write(&self.sql.wake_next, &[text(&queue.as_str()), text(&own), text(types)]).await?;
        }
        Ok(())
    }

    /// A worker leaves: a notification that is sent to it would wake nobody. If another one of this process goes on, it marks
    /// itself again when it next finds nothing.
    pub(super) async fn stop_waiting(&self) {
        let unmark = self.appetite().stop();
        if unmark.is_empty() {
            return;
        }
        if let Err(fault) = self.write_appetite(&Told { unmark, ..Told::default() }).await {
            tracing::debug!(?fault, "the store was not told that nobody waits");
        }
    }

    /// Looks from the very front, about once a second, for as long as the engine lives.
    pub(super) async fn keep_looking(store: std::sync::Weak<Self>, every: Duration) {
        let mut pause = every;
        loop {
            // may sleep: this is the poll itself.
            tokio::time::sleep(pause).await;
            let Some(store) = store.upgrade() else { return };
            let start = Moment::now();
            if let Err(fault) = store.look_around().await {
                tracing::debug!(?fault, "a look for work failed");
            }
            let took = start.elapsed();
            pause = every.max(took * LOOK_PART);
        }
    }

    /// One look at all queues in use: positions step back to what was missed, and whoever waits is told.
    async fn look_around(&self) -> Step<()> {
        let old = self.appetite().old_marks(Moment::now());
        if !old.is_empty() {
            self.write_appetite(&Told { mark: old, ..Told::default() }).await?;
        }
        let scopes = self.positions().in_use(Moment::now(), IN_USE_FOR);
        if scopes.is_empty() {
            return Ok(());
        }
        let conn = self.work.get().await?;
        let due = self.look(&conn, &scopes).await?;
        due.iter().for_each(|queue| self.listeners.tell(&Hint::Queue(queue.clone())));
        Ok(())
    }

    /// How long the last look took.
    pub(super) fn look_takes(&self) -> Duration {
        Duration::from_micros(self.look_micros.load(Ordering::Relaxed))
    }

    /// A look at some queues from the very front, and at where other processes have put jobs back. Gives the queues in which
    /// something is due.
    pub(super) async fn look(&self, conn: &Conn, scopes: &[Scope]) -> Step<HashSet<QueueName>> {
        let queues: Vec<_> = scopes.iter().map(|scope| scope.queue.to_string()).collect();
        let types: Vec<_> = scopes.iter().map(|scope| scope.types.as_ref().map(to_json)).collect();
        let (start, at) = (Moment::now(), self.estimated_now());
        let rows = conn.ask(&self.sql.look, &[texts(&queues), texts(&types)]).await?;
        self.look_micros
            .store(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut first: HashMap<(usize, Priority), Place> = HashMap::new();
        let mut put_back = Vec::new();
        for row in &rows {
            let Ok(priority) = Priority::new(row.try_get::<_, i16>(1)?.into()) else { continue };
            let due = row.try_get::<_, Instant>(2)?.0;
            match row.try_get::<_, Option<i64>>(0)? {
                Some(place) => {
                    let place = usize::try_from(place).unwrap_or(0).saturating_sub(1);
                    first.insert((place, priority), (due, JobId(row.try_get(3)?)));
                }
                None => {
                    put_back.extend(QueueName::parse(row.try_get(4)?).map(|queue| (queue, priority, due)))
                }
            }
        }
        self.positions().put_back(&put_back, start);
        let long = (self.look_takes() >= LONG_LOOK).then_some(LongLook { began: start, at });
        Ok(self.take_in(scopes, &first, long))
    }

    fn take_in(
        &self,
        scopes: &[Scope],
        first: &HashMap<(usize, Priority), Place>,
        long: Option<LongLook>,
    ) -> HashSet<QueueName> {
        let now = self.estimated_now();
        let mut due = HashSet::new();
        let mut positions = self.positions();
        for (place, scope) in scopes.iter().enumerate() {
            positions.looked(scope, now);
            for priority in Priority::all() {
                let head = first.get(&(place, priority)).copied();
                positions.saw(scope, priority, head);
                if let Some(look) = long {
                    positions.advance(scope, priority, head, look);
                }
                if head.is_some_and(|head| head.0 <= now) {
                    due.insert(scope.queue.clone());
                }
            }
        }
        due
    }
}
