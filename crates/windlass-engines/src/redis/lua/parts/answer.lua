-- answer: builds what a script returns, and notifies engines that a job became claimable.
-- keys gate:, gates, waiters:, wake:

local hinted = {}

-- Completion triggers that this script marks; see parts/waiting.lua.
local triggers = {marked = {}}

-- Some job of this type may be claimable, now or at another time than before.
local function hint(type)
  hinted[kind(type).queue] = true
end

-- Engines that ended without saying so are still listed; `wake` removes each when it meets it. The last
-- `waiters` of them are kept for each queue. `named` are queues that the answer names, `left` those that a
-- worker has left.
local WAKE = {tries = 10, waiters = 1000, named = {}, left = {}}

-- Wakes one engine that has a worker waiting for jobs of this queue. The engine's name precedes the colon.
local function wake(queue)
  for _ = 1, WAKE.tries do
    local waiter = redis.call('ZPOPMIN', key('waiters:') .. queue)[1]
    local engine = waiter and string.match(waiter, '^[^:]*')
    -- The caller itself is notified by its answer. If its listener notified it, too, it would claim twice,
    -- and find nothing the second time.
    if engine == ENGINE then
      WAKE.named[queue] = true
    end
    if not engine or engine == ENGINE or redis.call('PUBLISH', key('wake:') .. engine, queue) > 0 then
      return
    end
  end
end

-- Registers that a worker of this engine waits for jobs of this queue: the longest-waiting worker is woken
-- first. A worker without room for more waits no longer: were it woken, it would claim nothing, while another
-- worker waits that could.
local function wait_for(queue, worker, has_room)
  local name, waiter = key('waiters:') .. queue, ENGINE .. ':' .. worker
  if not has_room then
    redis.call('ZREM', name, waiter)
  elseif redis.call('ZADD', name, NOW_DIGITS, waiter) == 1 then
    redis.call('ZREMRANGEBYRANK', name, 0, - WAKE.waiters - 1)
  end
end

-- Gates that jobs were removed from. A gate without waiting jobs is removed from the list of gates.
local gates_left = {}
local function close_gates()
  for gate in pairs(gates_left) do
    if redis.call('EXISTS', key('gate:') .. gate) == 0 then
      redis.call('ZREM', key('gates'), gate)
    end
  end
end

-- Returns the answer of a script once everything is written: the time, the queues to notify, among them * if
-- a completion trigger was marked, and the requested value.
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
