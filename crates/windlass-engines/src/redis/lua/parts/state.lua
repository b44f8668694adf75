-- state: where a job is and what happened to it, as one string of bytes in a hash `state`.
--
-- head   stage c1, flags B, type I4, priority B, enqueued I8, due I8,
--        attempts I4, failures I4, crashes I4, holds I4
-- claim  token c16, worker c16, since I8: of a running job, and of the attempt that ended it
-- end    at I8: of a job that has ended
--
-- Stages: w waits and was due when it was stored, f falls due later, u suspect, p parked behind a gate,
--         r running, s succeeded, d dead, c cancelled.
-- Flags:  1 it has notes, 2 it was boosted when it was claimed.
--
-- Properties that few jobs have are notes in a hash of their own, notes:<id>: key, scope, ordering_key,
-- group, fairness_key, expires, gate, cancel, error, settled, progress, result, output, why, death. row.rs
-- reads the same bytes.
-- keys counts, kinds, notes:

local HEAD = '>c1BI4BI8I8I4I4I4I4'
local HEAD_BYTES = 39
local PRIORITY_AT = 7
local CLAIM = '>c16c16I8'
local CLAIM_BYTES = 40
local NO_TOKEN = string.rep('\0', 16)

-- The stages that states of a length may have.
local STAGES = {[HEAD_BYTES] = 'wfup', [HEAD_BYTES + CLAIM_BYTES] = 'r', [HEAD_BYTES + CLAIM_BYTES + 8] = 'sdc'}

-- Whether these bytes are a state. A damaged state must not keep other jobs from going on. The script that
-- meets one skips it, and removes it from the set that lists it (`bury_damaged`), so that no script meets it
-- again.
local function is_sound(text)
  local stages = STAGES[#text]
  return stages ~= nil and string.find(stages, string.sub(text, 1, 1), 1, true) ~= nil
    and string.byte(text, PRIORITY_AT) <= PRIORITY_LAST
end

-- Returns nil if the state is damaged.
local function decode(id, text)
  if not is_sound(text) then
    return nil
  end
  local job = {id = id}
  job.stage, job.flags, job.type, job.priority, job.enqueued, job.due, job.attempts, job.failures, job.crashes,
    job.holds = struct.unpack(HEAD, text)
  if #text > HEAD_BYTES then
    job.token, job.worker, job.since = struct.unpack(CLAIM, text, HEAD_BYTES + 1)
  end
  if #text > HEAD_BYTES + CLAIM_BYTES then
    job.at = struct.unpack('>I8', text, HEAD_BYTES + CLAIM_BYTES + 1)
  end
  return job
end

local function encode(job)
  local text = struct.pack(HEAD, job.stage, job.flags, job.type, job.priority, job.enqueued, job.due, job.attempts,
    job.failures, job.crashes, job.holds)
  if job.token then
    text = text .. struct.pack(CLAIM, job.token, job.worker, job.since)
  end
  if job.at then
    text = text .. struct.pack('>I8', job.at)
  end
  return text
end

-- Jobs as this script has read, created or changed them; false for a job that does not exist or cannot be
-- read. Each job has one table here, which collects all changes and is written with all the rest.
local known = {}

-- Returns nil if there is no such job, or its state is damaged.
local function know(id, text)
  if known[id] == nil then
    known[id] = text and decode(id, text) or false
  end
  return known[id] or nil
end

local function load(id)
  if known[id] == nil then
    know(id, get_job(STATE, id))
  end
  return known[id] or nil
end

-- Loads many jobs: false for each that does not exist, or is damaged.
local function load_all(ids)
  local jobs = {}
  for i, text in ipairs(get_jobs(STATE, ids)) do
    jobs[i] = know(ids[i], text) or false
  end
  return jobs
end

local function waits(job)
  return string.find('wfup', job.stage, 1, true) ~= nil
end

local function has_notes(job)
  return job.flags % 2 == 1
end

-- The notes that scripts read. The first access reads all of them: each command takes a script longer than
-- the server needs for it.
local READ_NOTES = {'key', 'scope', 'ordering_key', 'group', 'fairness_key', 'expires', 'gate', 'cancel', 'settled'}
local IS_READ_NOTE = {}
for _, name in ipairs(READ_NOTES) do
  IS_READ_NOTE[name] = true
end

local function stored_notes(job)
  if not job.stored then
    job.stored = {}
    for i, value in ipairs(redis.call('HMGET', key('notes:') .. job.id, unpack(READ_NOTES))) do
      job.stored[READ_NOTES[i]] = value or nil
    end
  end
  return job.stored
end

local function note(job, name)
  if not has_notes(job) then
    return nil
  end
  return job.fresh and job.fresh[name] or stored_notes(job)[name]
end

-- Jobs whose notes are to be written.
local noted = {}

-- Sets a note of a job; it is written when the job is saved. If it is the first note, nothing is stored yet.
local function set_note(job, name, value)
  check_value(value)
  if not has_notes(job) then
    job.flags, job.stored = job.flags + 1, {}
  end
  -- Notes are read before anything is written, so that damage is found in time.
  stored_notes(job)
  job.fresh = job.fresh or {}
  job.fresh[name] = value
end

local function drop_notes(job, ...)
  for _, name in ipairs(has_notes(job) and {...} or {}) do
    if not IS_READ_NOTE[name] or stored_notes(job)[name] then
      job.dropped = job.dropped or {}
      table.insert(job.dropped, name)
      stored_notes(job)[name] = nil
      noted[job.id] = job
    end
    if job.fresh then
      job.fresh[name] = nil
    end
  end
end

local function write_notes(job)
  if job.dropped then
    redis.call('HDEL', key('notes:') .. job.id, unpack(job.dropped))
  end
  local values = {}
  for name, value in pairs(job.fresh or {}) do
    values[#values + 1] = name
    values[#values + 1] = value
  end
  if #values > 0 then
    redis.call('HSET', key('notes:') .. job.id, unpack(values))
  end
end

-- States to be written, by id.
local saved = {}

local function save(job)
  known[job.id], noted[job.id], saved[job.id] = job, job, encode(job)
end

-- Records that nothing of a job is to be written: it is deleted.
local function unsave(id)
  known[id], noted[id], saved[id] = false, nil, nil
end

on_write(function()
  for _, job in pairs(noted) do
    write_notes(job)
    job.fresh, job.dropped = nil, nil
  end
  local states = {}
  for id, text in pairs(saved) do
    states[#states + 1] = id
    states[#states + 1] = text
  end
  set_jobs(STATE, states)
  noted, saved = {}, {}
end)

-- All notes of a job, names and values in turn.
local function all_notes(job)
  return has_notes(job) and redis.call('HGETALL', key('notes:') .. job.id) or {}
end

-- The properties of a type's number: its queue, for how many days its jobs are kept, whether their results
-- are kept.
local kinds = {}
local function kind(type)
  if not kinds[type] then
    local text = redis.call('HGET', key('kinds'), digits(type)) or ''
    local days, keeps_result, queue = string.match(text, '^(%d+) (%d) (.*)$')
    kinds[type] = {days = tonumber(days or 0), keeps_result = keeps_result == '1', queue = queue or ''}
  end
  return kinds[type]
end

local counted = {enqueued = {}, succeeded = {}, retried = {}, dead = {}, cancelled = {}, started_over = {}}

-- Counts what happened to jobs of a type; the counts are written once, at the end.
local function count(type, what, by)
  local by_type = counted[what]
  by_type[type] = (by_type[type] or 0) + (by or 1)
end

local function write_counts()
  for what, by_type in pairs(counted) do
    for type, by in pairs(by_type) do
      -- A count that is no longer a number starts over.
      local field = digits(type) .. ':' .. what
      if not tonumber(redis.pcall('HINCRBY', key('counts'), field, by)) then
        redis.call('HSET', key('counts'), field, by)
      end
    end
  end
end
