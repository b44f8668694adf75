-- triggers: completion triggers as they are stored, in the hash `triggers`: by name, a version, a space, the
-- last job (14 digits, or -), a space, when the trigger may be evaluated again (or -), a space, and core's
-- text as JSON. What they watch and their marks are in parts/waiting.lua. Their own jobs that may not have
-- ended are in the set trigger_jobs:<name>.
-- keys counts, trigger_jobs:, triggers, lines:, parked:

-- Version, last job, when the trigger may be evaluated, and record. An unreadable trigger counts as never
-- written, and is overwritten.
local function read_trigger(text)
  local version, job, look_at, record = string.match(text or '', '^(%d+) (%S+) (%S+) (.*)$')
  if not version or #version > 16 then
    return 0, '-', '-', ''
  end
  return tonumber(version), job, look_at, record
end

local function save_trigger(name, version, job, look_at, record)
  write('HSET', key('triggers'), name, table.concat({digits(version), job, look_at, record}, ' '))
end

-- The rest is for the evaluation of a trigger; see fire_trigger.lua.
local group_check = {}

-- The page size, and the maximum number of jobs of one set that are read. If none of them decides, the
-- trigger is evaluated again later.
group_check.PAGE, group_check.MOST = 50, 500

-- How many jobs of a type have not ended, and how many of those run.
function group_check.counts(type)
  local field = digits(type) .. ':'
  local counts = redis.call('HMGET', key('counts'), field .. 'enqueued', field .. 'succeeded', field .. 'dead', field .. 'cancelled')
  local function number(i)
    return tonumber(counts[i]) or 0
  end
  local unfinished = number(1) - number(2) - number(3) - number(4)
  local waiting = redis.call('ZCARD', key('parked:') .. digits(type))
  for letter in string.gmatch(mask(type), '[a-kA-Ks]') do
    waiting = waiting + redis.call('ZCARD', lane_key(type, letter))
  end
  return unfinished, unfinished - waiting
end

-- The triggers that watch the same group as this one, by name: their jobs do not belong to the group.
function group_check.peers(name)
  local peers = {[name] = true}
  for _, trigger in ipairs(triggers.watches()) do
    if triggers.watch_the_same(trigger, triggers.by_name[name]) then
      peers[trigger.name] = true
    end
  end
  return peers
end

function group_check.is_trigger_job(job, peers)
  local maker = triggers.maker(note(job, 'key'))
  return maker and peers[maker.name]
end

-- How many jobs of these triggers have not ended, and how many of those run, by type; and how many are due,
-- by the key of their lane.
function group_check.trigger_jobs(peers)
  local live, running, due = {}, {}, {}
  for name in pairs(peers) do
    for _, id in ipairs(redis.call('SMEMBERS', key('trigger_jobs:') .. name)) do
      local job = load(id)
      local is_live = job and (waits(job) or job.stage == 'r')
      if is_live then
        live[job.type] = (live[job.type] or 0) + 1
        running[job.type] = (running[job.type] or 0) + (job.stage == 'r' and 1 or 0)
        if job.stage ~= 'r' and job.stage ~= 'p' and job.due <= NOW then
          local lane = lane_key(job.type, lane_of(job))
          due[lane] = (due[lane] or 0) + 1
        end
      else
        -- Only scripts that add the job to the set again start a dead letter over; see parts/waiting.lua.
        write('SREM', key('trigger_jobs:') .. name, id)
      end
    end
  end
  return live, running, due
end

-- Whether a job that is not of these triggers is in this set up to this score. With `repairs`, jobs that have
-- ended or are gone are removed from the set, where damaged values may have left them. Returns nil if the
-- answer is not known.
function group_check.any(place, score, peers, repairs)
  for from = 0, group_check.MOST - 1, group_check.PAGE do
    local ids = redis.call('ZRANGEBYSCORE', place, '-inf', score, 'LIMIT', from, group_check.PAGE)
    for i, job in ipairs(load_all(ids)) do
      if job and (waits(job) or job.stage == 'r') then
        if not group_check.is_trigger_job(job, peers) then
          return true
        end
      elseif repairs then
        write('ZREM', place, ids[i])
      end
    end
    if #ids < group_check.PAGE then
      return false
    end
  end
  return nil
end

-- Whether any job of these types is left. Where there are more jobs of triggers than are read one by one,
-- they are counted.
function group_check.types_have_work(types, peers, waits_too)
  local own_live, own_running, own_due = group_check.trigger_jobs(peers)
  for _, type in ipairs(types) do
    local unfinished, running = group_check.counts(type)
    if waits_too and unfinished > (own_live[type] or 0) or not waits_too and running > (own_running[type] or 0) then
      return true
    end
    local places = {key('lines:') .. digits(type)}
    for letter in string.gmatch(waits_too and '' or mask(type), '[a-kA-Ks]') do
      places[#places + 1] = lane_key(type, letter)
    end
    for i, place in ipairs(waits_too and {} or places) do
      local is_there = group_check.any(place, NOW_DIGITS, peers, i == 1)
      if is_there == nil then
        is_there = redis.call('ZCOUNT', place, '-inf', NOW_DIGITS) > (own_due[place] or 0)
      end
      if is_there then
        return true
      end
    end
  end
  return false
end
