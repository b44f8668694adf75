-- answer: what a script gives back, and who is told that a job came.
-- keys gate:, gates, waiters:, wake:

local hinted = {}

-- CompletionTriggers that this script marks; see parts/waiting.lua.
local triggers = {marked = {}}

-- Something in the queue of this type may be claimable, now or at another time than before.
local function hint(type)
  hinted[kind(type).queue] = true
end

-- Engines that went away without a word are still listed; each is met once. However many those are, so many are kept of a
-- queue, the last ones. `named` are queues that the answer names, `left` those that a worker has left.
local WAKE = {tries = 10, waiters = 1000, named = {}, left = {}}

-- Wakes one engine of which a worker waits for jobs of this queue: its name stands before the colon.
local function wake(queue)
  for _ = 1, WAKE.tries do
    local waiter = redis.call('ZPOPMIN', key('waiters:') .. queue)[1]
    local engine = waiter and string.match(waiter, '^[^:]*')
    -- The caller itself hears it by its answer. By its listener, too, it would come twice, and find nothing the second time.
    if engine == ENGINE then
      WAKE.named[queue] = true
    end
    if not engine or engine == ENGINE or redis.call('PUBLISH', key('wake:') .. engine, queue) > 0 then
      return
    end
  end
end

-- A worker of this engine waits for jobs of this queue: whoever has waited longest is woken first. One that has no room for more
-- waits no longer: were it woken, nobody would come, while another waits who could.
local function wait_for(queue, worker, has_room)
  local name, waiter = key('waiters:') .. queue, ENGINE .. ':' .. worker
  if not has_room then
    redis.call('ZREM', name, waiter)
  elseif redis.call('ZADD', name, NOW_DIGITS, waiter) == 1 then
    redis.call('ZREMRANGEBYRANK', name, 0, - WAKE.waiters - 1)
  end
end

-- Gates that jobs were taken away from. Those that nobody waits behind any more are not listed.
local gates_left = {}
local function close_gates()
  for gate in pairs(gates_left) do
    if redis.call('EXISTS', key('gate:') .. gate) == 0 then
      redis.call('ZREM', key('gates'), gate)
    end
  end
end

-- What a script gives back once everything is written: the time, the queues to hint at, among them * if a drain was marked, and what it
-- was asked for.
local function answer(value)
  write_all()
  write_counts()
  close_gates()
  local queues = {}
  for queue in pairs(hinted) do
    WAKE.named[queue] = true
    wake(queue)
  end
  for queue in pairs(WAKE.left) do
    if not hinted[queue] then
      wake(queue)
    end
  end
  for queue in pairs(WAKE.named) do
    queues[#queues + 1] = queue
  end
  -- No queue has this name.
  if next(triggers.marked) then
    queues[#queues + 1] = '*'
  end
  return {'ok', NOW_DIGITS, queues, value}
end
