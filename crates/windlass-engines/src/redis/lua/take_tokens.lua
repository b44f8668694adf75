-- take_tokens: takes tokens of rate limits, as core's `take` decides. Guarded by
-- `policies::tokens_are_taken_as_core_decides`.
--
-- The sorted set `tokens` stores for each key when its next token falls due if no tokens are saved up. A key
-- that is not in it has saved up its full burst. All numbers are whole and stay far below 2^53: so sums, and
-- quotients rounded down, are exact.
-- keys tokens
-- ARGV number of requests, for each: limit and key with a colon between, microseconds between tokens, how
--      many microseconds ahead of their time tokens may be taken, the maximum number of tokens
-- answers for each: the number of granted tokens, the instant that is stored, and in how many microseconds
--      the next token falls due, or '' if there is one
local function take(due, every, tolerance, wanted)
  -- An instant further ahead than a limit can cause was written under another clock, or under another limit.
  local from = due and math.max(NOW, math.min(due, NOW + tolerance + every)) or NOW
  local room = NOW + tolerance - from
  local there = room < 0 and 0 or math.floor(room / every) + 1
  local granted = math.min(there, wanted)
  return granted, from + granted * every, there == 0 and digits(- room) or ''
end

-- The stored instant of each key, with the tokens that this script has taken.
local known_due = {}
local function due_of(member)
  if known_due[member] == nil then
    known_due[member] = tonumber(redis.call('ZSCORE', key('tokens'), member) or nil) or false
  end
  return known_due[member] or nil
end

local answers = {}
for _ = 1, number_arg() do
  local member, every, tolerance, wanted = arg(), number_arg(), number_arg(), number_arg()
  local due = due_of(member)
  local granted, remembered, wait = take(due, every, tolerance, wanted)
  if granted > 0 or (due and due > remembered) then
    known_due[member] = remembered
    write('ZADD', key('tokens'), digits(remembered), member)
  end
  for _, value in ipairs({digits(granted), digits(remembered), wait}) do
    answers[#answers + 1] = value
  end
end
return answer(answers)
