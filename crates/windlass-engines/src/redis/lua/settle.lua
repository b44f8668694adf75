-- settle: writes the ends of attempts, each only while its fence holds.
-- keys ended
-- ARGV whether the workers themselves settle ('1') or a rescue does (''), what core decides for a plain
--      success; number of settlements, for each: id, token, for how many microseconds the handler ran and how
--      many microseconds ago it ended ('' if that is not known), and what core decided (apply.rs), or '' for
--      a plain success
-- answers for each the stage of the job afterwards, 'a' if this token settled it before, or '' if the claim
--      is lost
local by_worker, plain_success, settlements = arg() == '1', arg(), number_arg()

local ids, tokens, spans, agos, orders = {}, {}, {}, {}, {}
for i = 1, settlements do
  ids[i], tokens[i], spans[i], agos[i], orders[i] = arg(), arg(), arg(), arg(), arg()
end
local texts = get_jobs(STATE, ids)

-- Plain successes are written together at the end.
local RUNNING_BYTES = HEAD_BYTES + CLAIM_BYTES
local states, leaving = {}, {}

-- Until when a job that ends now is kept, in digits.
local kept = {}
local function keep_until(days)
  kept[days] = kept[days] or digits(NOW + days * DAY)
  return kept[days]
end

local function succeed(id, text, token, ran_for, ended, flags)
  local type = struct.unpack('>I4', text, 3)
  local worker = string.sub(text, 56, 71)
  released[worker] = released[worker] or {}
  table.insert(released[worker], id)
  count(type, 'succeeded')
  if flags == 0 then
    triggers.mark(type, nil, nil, true, true)
  end
  local days = kind(type).days
  if days == 0 then
    if flags == 1 then
      forget(id, flags)
    else
      gone[#gone + 1] = id
    end
    add_trace(id, token)
    return
  end
  states[#states + 1] = id
  local since = struct.pack('>I8I8', ended - ran_for, ended)
  states[#states + 1] = 's' .. string.char(flags) .. string.sub(text, 3, 71) .. since
  leaving[#leaving + 1] = keep_until(days)
  leaving[#leaving + 1] = id
end

local function write_successes()
  writers.first()
  set_jobs(STATE, states)
  call_many('ZADD', key('ended'), leaving)
end

-- Whether a job with notes ends as a job without notes does: no request to stop it exists. Then it frees its
-- key and its ordering key.
local function ends_plainly(job)
  if note(job, 'cancel') then
    return false
  end
  free_key(job, 'e')
  ordering_key.leave(job)
  triggers.ended(job, true)
  drop_notes(job, 'settled')
  return true
end

-- Many orders of a batch are equal.
local decoded = {}
local function decode_order(text)
  decoded[text] = decoded[text] or cjson.decode(text)
  return decoded[text]
end

-- The token by which this script settles each job; '' if a rescue does.
local settled = {}

local function settle(id, text, token, ran_for, ended_ago, order)
  if settled[id] then
    return settled[id] == token and 'a' or ''
  end
  if not text or #text ~= RUNNING_BYTES or string.sub(text, 1, 1) ~= 'r' or string.sub(text, 40, 55) ~= token then
    return settled_before(id, text, token) and 'a' or ''
  end
  local flags = string.byte(text, 2) % 2
  local job = (flags == 1 or order ~= '') and know(id, text)
  if job == nil then
    -- The job cannot be read. The script that releases its worker's jobs moves it to the dead-letter queue.
    return ''
  end
  local span = tonumber(ran_for)
  if not span and ran_for ~= '' then
    error('expected how long a job ran, got ' .. ran_for)
  end
  local ended = NOW - (tonumber(ended_ago) or 0)
  settled[id] = by_worker and token or ''
  if order == '' and (flags == 0 or ends_plainly(job)) then
    succeed(id, text, token, span, ended, flags)
    return 's'
  end
  apply(job, decode_order(order == '' and plain_success or order), by_worker and token or nil, span, ended)
  return job.stage
end

local answers = {}
for i, id in ipairs(ids) do
  answers[i] = settle(id, texts[i], tokens[i], spans[i], agos[i], orders[i])
end
write_successes()
return answer(answers)
