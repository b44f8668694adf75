-- prune: deletes records past their retention, a limited number of each kind.
-- keys answers, ended, graves, held:, lapsing, receipts, spent, stops:, tokens, traces, worker:
-- ARGV the maximum number of each kind; for how long receipts, claim tombstones and traces are kept; for how
--      long the graves of workers are kept
-- answers how many records were deleted, and '1' if there is more to do
local limit, old, old_graves = number_arg(), digits(NOW - number_arg()), digits(NOW - number_arg())

local function first_until(name, instant, most)
  return redis.call('ZRANGEBYSCORE', key(name), '-inf', instant, 'LIMIT', 0, most)
end

local function prune_jobs()
  local ids = first_until('ended', NOW_DIGITS, limit)
  for i, text in ipairs(get_jobs(STATE, ids)) do
    -- The state of an unreadable job does not say whether the job has notes.
    local has_notes = text and (not is_sound(text) or string.byte(text, 2) % 2 == 1)
    forget(ids[i], has_notes and 1 or 0)
  end
  write_many('ZREM', key('ended'), ids)
  return #ids
end

local function prune_set(name)
  local members = first_until(name, old, limit)
  write_many('ZREM', key(name), members)
  return members
end

local function prune_receipts()
  local requests = prune_set('receipts')
  write_many('HDEL', key('answers'), requests)
  return #requests
end

local function prune_graves()
  local pruned = 0
  for _, worker in ipairs(first_until('graves', old_graves, limit)) do
    if redis.call('SCARD', key('held:') .. worker) == 0 then
      write('UNLINK', key('worker:') .. worker, key('stops:') .. worker)
      write('ZREM', key('graves'), worker)
      pruned = pruned + 1
    else
      -- Its jobs are to be rescued first. Its grave moves to the end, so that it does not keep other graves
      -- from being pruned.
      write('ZADD', key('graves'), NOW_DIGITS, worker)
    end
  end
  return pruned
end

-- Deletes keys held for a period that is over; another job may have taken one since.
local function prune_keys()
  local lapsed = first_until('lapsing', NOW_DIGITS, limit)
  local pruned = 0
  for _, member in ipairs(lapsed) do
    local type, name = string.match(member, '^(%d+):(.*)$')
    local holder = type and key_holder(tonumber(type), name)
    if holder and verdict(holder, 'k') == 'i' then
      set_holder(tonumber(type), name, false)
      pruned = pruned + 1
    end
  end
  write_many('ZREM', key('lapsing'), lapsed)
  return pruned
end

-- Deletes keys of rate limits that have saved up their full burst: nothing needs to be stored for them.
local function prune_tokens()
  local full = first_until('tokens', NOW_DIGITS, limit)
  write_many('ZREM', key('tokens'), full)
  return #full
end

local pruned = prune_jobs() + prune_receipts() + #prune_set('spent') + prune_keys() + prune_tokens()
local graves = prune_graves()
prune_set('traces')
write_all()
local more = #first_until('ended', NOW_DIGITS, 1) + #first_until('receipts', old, 1) + #first_until('spent', old, 1)
  + #first_until('traces', old, 1) + #first_until('lapsing', NOW_DIGITS, 1) + #first_until('tokens', NOW_DIGITS, 1) > 0
  or (graves > 0 and graves == limit)
return answer({digits(pruned + graves), more and '1' or ''})
