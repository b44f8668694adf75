-- rescue: declares workers dead whose heartbeat count has not changed since it was read, and lists jobs that
-- dead workers hold. Core decides what becomes of these jobs; settle writes it, under the fence of the dead
-- worker.
-- keys deaths, graves, held:, worker:, workers
-- ARGV the maximum number of jobs, number of workers, for each: worker and its heartbeat count as it was read
-- answers a list of jobs, a list of dead workers, and '1' if dead workers hold more: for each job id, state
--      and worker; for each worker its id, the jobs that it held when it was declared dead (14 digits each, a
--      part of them if it held very many), and '1' if it was leaving
local limit = number_arg()
local silent = {}
for i = 1, number_arg() do
  silent[i] = {worker = arg(), beats = number_arg()}
end

-- The maximum number of dead workers that one run reads.
local DEATHS_READ_MAX = 100
-- The maximum number of held jobs that are stored with a worker's death: as many as a pool of workers has
-- slots.
local HELD_REMEMBERED = 1000

-- What each newly dead worker holds, and whether it was leaving.
local newly_dead = {}

local function declare_dead(worker, beats)
  -- A worker that is not listed was released or declared dead before.
  if newly_dead[worker] or redis.call('SISMEMBER', key('workers'), worker) == 0 then
    return
  end
  local row = key('worker:') .. worker
  local seen = redis.call('HMGET', row, 'beats', 'expires', 'leaving')
  local expires = tonumber(seen[2]) or NOW
  if (tonumber(seen[1]) or 0) ~= beats or expires > NOW then
    return
  end
  local held = redis.call('SRANDMEMBER', key('held:') .. worker, HELD_REMEMBERED)
  table.sort(held)
  newly_dead[worker] = {table.concat(held), seen[3]}
  newly_dead[#newly_dead + 1] = worker
  write('HSET', row, 'dead', '1', 'held', newly_dead[worker][1])
  write('SREM', key('workers'), worker)
  write('ZADD', key('graves'), digits(expires), worker)
  write('RPUSH', key('deaths'), worker)
end

for _, of in ipairs(silent) do
  declare_dead(of.worker, of.beats)
end

local deaths = limit > 0 and redis.call('LRANGE', key('deaths'), 0, DEATHS_READ_MAX - 1) or {}
local more = #deaths == DEATHS_READ_MAX
for _, worker in ipairs(limit > 0 and newly_dead or {}) do
  deaths[#deaths + 1] = worker
end

local jobs, dead, room = {}, {}, limit

local function list(worker)
  local ids = redis.call('SRANDMEMBER', key('held:') .. worker, room)
  room = room - #ids
  table.sort(ids)
  for i, text in ipairs(get_jobs(STATE, ids)) do
    local is_running = text and is_sound(text) and string.sub(text, 1, 1) == 'r'
    if not is_running or string.sub(text, 56, 71) ~= worker then
      write('SREM', key('held:') .. worker, ids[i])
      bury_damaged(ids[i])
    else
      for _, value in ipairs({ids[i], text, worker}) do
        jobs[#jobs + 1] = value
      end
    end
  end
  return #ids
end

for _, worker in ipairs(deaths) do
  local held = redis.call('SCARD', key('held:') .. worker)
  if held == 0 then
    write('LREM', key('deaths'), 1, worker)
  elseif room == 0 then
    more = true
  else
    local known_death = newly_dead[worker] or redis.call('HMGET', key('worker:') .. worker, 'held', 'leaving')
    for _, value in ipairs({worker, known_death[1] or '', known_death[2] and '1' or ''}) do
      dead[#dead + 1] = value
    end
    more = list(worker) < held or more
  end
end
return answer({jobs, dead, more and '1' or ''})
