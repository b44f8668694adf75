//! `windlass job enqueue`: enqueues one job, or many from standard input.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;
use serde_json::value::RawValue;
use windlass::{Client, ClientOptions};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId};
use windlass_core::key::OnConflict;
use windlass_core::limits::{ENQUEUE_BATCH_MAX, PAYLOAD_BYTES_MAX};
use windlass_core::names::{
    CorrelationId, FairnessKey, GroupName, Key, OrderingKey, QueueName, Tag, TypeName,
};
use windlass_core::payload::Payload;

use super::draft::{Draft, NumberOrLabel, ProvenanceArgs, WordOrPolicy};
use crate::context::Context;
use crate::exit::{Code, Failure};

/// The maximum length in bytes of one line of `--jsonl`: the largest payload, and room for the other
/// fields.
const LINE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 64 * 1024;
/// The payload bytes after which a request is sent, so that a thousand large jobs do not fill the memory.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often a request is sent again if its answer was lost. It carries its id, so no second job is
/// created.
const REPEATS_MAX: u32 = 3;

/// Enqueues a job and prints its id and the result: `new`; or `duplicate`, `replaced` or `revived` if its
/// key was held; or `spooled` if the server is unavailable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass job enqueue mail.send '{\"to\": \"a@example.org\"}'
  windlass job enqueue report --delay 1h30m --priority low --tag nightly
  windlass job enqueue wallet.backfill '{\"wallet\": 7}' --key 7:mainnet --key-scope live-or-dead --on-conflict revive
  windlass job enqueue mail.send - < payload.json
  printf '%s\\n' '{\"type\":\"mail.send\",\"payload\":{\"n\":1},\"delay\":\"5m\"}' | windlass job enqueue --jsonl

A line of --jsonl is an object with `type` and, optionally, `payload`, `queue`, `priority`, `delay`, `at`, `key`,
`key_scope`, `on_conflict`, `ordering_key`, `fairness_key`, `correlation`, `tags`, `group`, `expires`, `timeout`, `retry`,
`caused_by`, `trace_context`.
Exit codes: 3 unknown type or queue, 4 queue full or shut, 5 some lines were refused, 1 all lines were refused.")]
pub(crate) struct EnqueueArgs {
    /// The job type, which must be registered
    #[arg(value_name = "TYPE", required_unless_present = "jsonl")]
    job_type: Option<TypeName>,
    /// The payload, as JSON; `-` reads it from standard input [default: {}]
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Read many jobs from standard input, one JSON object a line
    #[arg(long, conflicts_with_all = ["job_type", "payload", "queue", "priority", "delay", "at", "key", "ordering_key", "fairness_key", "correlation", "tag", "group", "expires", "timeout", "retry", "ProvenanceArgs"])]
    jsonl: bool,
    /// The queue, which must be the queue of the type [default: the type's]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// A number from 0 (most urgent) to 10, or a label [default: the type's, else the queue's]
    #[arg(long, value_name = "N|LABEL", allow_hyphen_values = true)]
    priority: Option<String>,
    /// Due after this time, such as 90s or 1h30m
    #[arg(long, value_name = "SPAN", conflicts_with = "at", allow_hyphen_values = true)]
    delay: Option<String>,
    /// Due at this instant, such as 2026-11-15T20:30:00Z
    #[arg(long, value_name = "INSTANT")]
    at: Option<String>,
    /// The key of the work item: while a job holds it, no second job of its type is created
    #[arg(long, value_name = "KEY")]
    key: Option<Key>,
    /// How long the key is held: live, live-or-dead, or for:SPAN [default: live]
    #[arg(long, value_name = "SCOPE", requires = "key")]
    key_scope: Option<String>,
    /// What happens if the key is held [default: keep]
    #[arg(long, value_name = "WHAT", requires = "key")]
    on_conflict: Option<Conflict>,
    /// The ordering key: jobs of one type with the same ordering key run one at a time, in the order of
    /// their enqueue
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<OrderingKey>,
    /// The fairness key, which says whose work it is: due jobs of one queue and priority take turns by
    /// fairness key
    #[arg(long, value_name = "KEY")]
    fairness_key: Option<FairnessKey>,
    /// The correlation id, shown in logs and passed on to follow-up jobs
    #[arg(long, value_name = "ID")]
    correlation: Option<CorrelationId>,
    /// A tag to find the job by; may be repeated
    #[arg(long, value_name = "TAG")]
    tag: Vec<Tag>,
    /// The group of the job
    #[arg(long, value_name = "GROUP")]
    group: Option<GroupName>,
    /// Cancel the job if it has not started by then: a span from now, or an instant
    #[arg(long, value_name = "SPAN|INSTANT", allow_hyphen_values = true)]
    expires: Option<String>,
    /// How long the handler of the job may run [default: the type's]
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    timeout: Option<String>,
    /// The retry policy, such as fibonacci, fixed:every=30s,attempts=3 or list:1s,5s [default: the type's]
    #[arg(long, value_name = "POLICY")]
    retry: Option<String>,
    #[command(flatten)]
    provenance: ProvenanceArgs,
    /// The id of this request, up to 32 hex digits: repeating it within an hour creates no second job
    #[arg(long, value_name = "HEX", value_parser = parse_request_id)]
    request_id: Option<u128>,
}

/// What happens if a key is held.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Conflict {
    /// Leave the holder as it is
    Keep,
    /// Give a waiting holder the new payload and time
    Replace,
    /// Retry a dead holder
    Revive,
}

impl From<Conflict> for OnConflict {
    fn from(conflict: Conflict) -> Self {
        match conflict {
            Conflict::Keep => Self::Keep,
            Conflict::Replace => Self::Replace,
            Conflict::Revive => Self::Revive,
        }
    }
}

fn parse_request_id(written: &str) -> Result<u128, String> {
    let plain = !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = plain.then(|| u128::from_str_radix(written, 16).ok()).flatten();
    number.ok_or_else(|| format!("expected 1 to 32 hex digits, got {written:?}"))
}

/// Runs `windlass job enqueue`.
pub(crate) async fn enqueue(args: &EnqueueArgs, context: &mut Context) -> Result<Code, Failure> {
    let request = match args.request_id {
        Some(request) => request,
        None => random()?,
    };
    if args.jsonl {
        return enqueue_lines(request, context).await;
    }
    let job = draft(args, context)?.into_new_job(context)?;
    client(context).take_tokens(&job).await.map_err(|why| Failure::new(Code::Refused, why.to_string()))?;
    let answers = send(RequestId::from_random(request), vec![job], context).await?;
    let answer = answers.first().ok_or_else(|| Failure::new(Code::Store, "the store gave no answer"))?;
    let id = answer.job().map_err(Failure::from)?;
    let what = result_word(answer);
    context.output.either(&json!({ "id": id, "result": what }), || format!("{id} {what}"))?;
    Ok(Code::Ok)
}

fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|why| {
        Failure::new(Code::Failed, format!("reading random bits from the system failed: {why}"))
    })?;
    Ok(u128::from_be_bytes(bytes))
}

fn draft(args: &EnqueueArgs, context: &mut Context) -> Result<Draft, Failure> {
    let job_type = args.job_type.clone().ok_or_else(|| Failure::usage("expected a job type, got none"))?;
    let payload = match args.payload.as_deref() {
        Some("-") => Some(read_payload(context)?),
        other => other.map(str::to_owned),
    };
    Ok(Draft {
        job_type,
        payload: payload.map(checked).transpose()?,
        queue: args.queue.clone(),
        priority: args.priority.clone().map(NumberOrLabel::Label),
        delay: args.delay.clone(),
        at: args.at.clone(),
        key: args.key.clone(),
        key_scope: args.key_scope.clone(),
        on_conflict: args.on_conflict.map(OnConflict::from),
        ordering_key: args.ordering_key.clone(),
        fairness_key: args.fairness_key.clone(),
        correlation: args.correlation.clone(),
        provenance: args.provenance.clone(),
        tags: args.tag.clone(),
        group: args.group.clone(),
        expires: args.expires.clone(),
        timeout: args.timeout.clone(),
        retry: args.retry.clone().map(WordOrPolicy::Word),
    })
}

fn checked(text: String) -> Result<Box<RawValue>, Failure> {
    let payload = Payload::parse(&text).map_err(|why| Failure::usage(why.to_string()))?;
    RawValue::from_string(payload.as_str().to_owned()).map_err(|why| Failure::usage(why.to_string()))
}

fn read_payload(context: &mut Context) -> Result<String, Failure> {
    let mut text = String::new();
    let limit = PAYLOAD_BYTES_MAX as u64 + 1;
    (&mut context.input)
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|why| Failure::usage(format!("reading standard input as text failed: {why}")))?;
    Ok(text)
}

/// A client with the configured limits.
fn client(context: &Context) -> Client {
    let options = ClientOptions { limits: context.config.limits.clone(), ..ClientOptions::default() };
    Client::with_options(Arc::clone(&context.engine), options)
}

/// Sends a request, and repeats it if its answer was lost.
async fn send(
    request: RequestId,
    jobs: Vec<NewJob>,
    context: &Context,
) -> Result<Vec<EnqueueAnswer>, Failure> {
    let request = EnqueueRequest { request, jobs };
    let mut repeats = 0;
    loop {
        match context.engine.enqueue(request.clone()).await {
            Err(error) if error.is_unknown() && repeats < REPEATS_MAX => repeats += 1,
            Err(error) => {
                let hint = format!(
                    "repeat the command with --request-id {}: this creates no second job",
                    request.request
                );
                let unknown = error.is_unknown();
                let failure = Failure::from(error);
                return Err(if unknown { failure.hint(hint) } else { failure });
            }
            Ok(answers) => return Ok(answers),
        }
    }
}

fn result_word(answer: &EnqueueAnswer) -> &'static str {
    match answer {
        EnqueueAnswer::New(_) => "new",
        EnqueueAnswer::Spooled(_) => "spooled",
        EnqueueAnswer::Duplicate(_) => "duplicate",
        EnqueueAnswer::Replaced(_) => "replaced",
        EnqueueAnswer::Revived(_) => "revived",
        EnqueueAnswer::Refused(_) => "refused",
    }
}

/// How many lines were stored and how many were refused.
#[derive(Default)]
struct Tally {
    stored: u64,
    refused: u64,
}

impl Tally {
    fn code(&self) -> Code {
        match (self.stored, self.refused) {
            (_, 0) => Code::Ok,
            (0, _) => Code::Failed,
            _ => Code::Partly,
        }
    }
}

async fn enqueue_lines(request: u128, context: &mut Context) -> Result<Code, Failure> {
    let input = std::mem::replace(&mut context.input, Box::new(std::io::empty()));
    let mut lines = Lines { input: BufReader::new(input), number: 0 };
    let mut tally = Tally::default();
    let client = client(context);
    for batch in 0_u128.. {
        let jobs = read_batch(&mut lines, context, &mut tally)?;
        if jobs.is_empty() {
            break;
        }
        let jobs = drop_limited(&client, jobs, context, &mut tally).await?;
        // The request id of a batch derives from the id of the whole command. A repeat of the command thus
        // repeats each of its batches under the same id.
        let request = RequestId::from_random(request.wrapping_add(batch));
        let (numbers, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        for (number, answer) in numbers.into_iter().zip(send(request, jobs, context).await?) {
            report_line(number, &answer, context, &mut tally)?;
        }
    }
    context.output.note(format!("{} stored or duplicate, {} refused", tally.stored, tally.refused));
    Ok(tally.code())
}

/// The jobs that no rate limit refuses.
async fn drop_limited(
    client: &Client,
    jobs: Vec<(u64, NewJob)>,
    context: &mut Context,
    tally: &mut Tally,
) -> Result<Vec<(u64, NewJob)>, Failure> {
    let mut accepted = Vec::with_capacity(jobs.len());
    for (number, job) in jobs {
        match client.take_tokens(&job).await {
            Ok(()) => accepted.push((number, job)),
            Err(why) => refuse_line(number, &why.to_string(), context, tally)?,
        }
    }
    Ok(accepted)
}

fn report_line(
    number: u64,
    answer: &EnqueueAnswer,
    context: &mut Context,
    tally: &mut Tally,
) -> Result<(), Failure> {
    match answer.job() {
        Err(why) => refuse_line(number, &why.to_string(), context, tally),
        Ok(id) => {
            tally.stored += 1;
            let what = result_word(answer);
            if context.output.is_json() {
                return context.output.json_line(&json!({ "line": number, "id": id, "result": what }));
            }
            context.output.line(format!("{id} {what}"))
        }
    }
}

fn refuse_line(number: u64, why: &str, context: &mut Context, tally: &mut Tally) -> Result<(), Failure> {
    tally.refused += 1;
    if context.output.is_json() {
        return context.output.json_line(&json!({ "line": number, "result": "refused", "error": why }));
    }
    context.output.complain(format!("line {number}: {why}"));
    Ok(())
}

/// Reads lines until a batch is full or the input ends. Refuses invalid lines on the way.
fn read_batch<R: Read>(
    lines: &mut Lines<R>,
    context: &mut Context,
    tally: &mut Tally,
) -> Result<Vec<(u64, NewJob)>, Failure> {
    let (mut jobs, mut bytes) = (Vec::new(), 0);
    while jobs.len() < ENQUEUE_BATCH_MAX && bytes < BATCH_BYTES_MAX {
        let Some(line) = lines.next()? else { break };
        match line.and_then(|text| parse_line(&text, context)) {
            Ok(Some(job)) => {
                bytes += job.payload.as_str().len();
                jobs.push((lines.number, job));
            }
            Ok(None) => {}
            Err(why) => refuse_line(lines.number, &why, context, tally)?,
        }
    }
    Ok(jobs)
}

/// Parses the job of a line. Returns `None` if the line is blank.
fn parse_line(text: &str, context: &Context) -> Result<Option<NewJob>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let draft: Draft =
        serde_json::from_str(text).map_err(|why| format!("expected a job as JSON, got {why}"))?;
    draft.into_new_job(context).map(Some).map_err(|failure| failure.message)
}

/// A reader of lines of bounded length.
struct Lines<R> {
    input: BufReader<R>,
    number: u64,
}

impl<R: Read> Lines<R> {
    /// The next line, or why it is invalid. Returns `None` at the end.
    fn next(&mut self) -> Result<Option<Result<String, String>>, Failure> {
        let cannot =
            |why: std::io::Error| Failure::new(Code::Failed, format!("reading standard input failed: {why}"));
        let mut line = Vec::new();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut line).map_err(cannot)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if line.len() > LINE_BYTES_MAX {
            self.input.skip_until(b'\n').map_err(cannot)?;
            return Ok(Some(Err(format!(
                "expected a line of at most {LINE_BYTES_MAX} bytes, got a longer one"
            ))));
        }
        Ok(Some(String::from_utf8(line).map_err(|_| "expected UTF-8, got other bytes".to_owned())))
    }
}
