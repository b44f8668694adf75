-- rescue: declares workers dead that are as silent as they were seen, and lists jobs that dead workers hold. What becomes
-- of those core decides; settle writes it, by the fence of the dead.
-- ARGV at most so many jobs, number of workers, for each: worker and its beats as they were seen
-- answers a list of jobs and a list of the dead: of each job id, state and worker; of each worker its id and the jobs that
--         it held when it was declared dead (14 digits each)
local limit = number_arg()
local silent = {}
for i = 1, number_arg() do
  silent[i] = {worker = arg(), beats = number_arg()}
end

-- What each of the newly dead holds.
local held_at_death = {}

local function declare_dead(worker, beats)
  -- Who is not listed was let out or declared dead before.
  if held_at_death[worker] or redis.call('SISMEMBER', key('workers'), worker) == 0 then
    return false
  end
  local row = key('worker:') .. worker
  local seen = redis.call('HMGET', row, 'beats', 'expires')
  local expires = tonumber(seen[2]) or NOW
  if (tonumber(seen[1]) or 0) ~= beats or expires > NOW then
    return false
  end
  local held = redis.call('SMEMBERS', key('held:') .. worker)
  table.sort(held)
  held_at_death[worker] = table.concat(held)
  write('HSET', row, 'dead', '1', 'held', held_at_death[worker])
  write('SREM', key('workers'), worker)
  write('ZADD', key('graves'), digits(expires), worker)
  write('RPUSH', key('deaths'), worker)
  return true
end

local deaths = redis.call('LRANGE', key('deaths'), 0, -1)
for _, of in ipairs(silent) do
  if declare_dead(of.worker, of.beats) then
    deaths[#deaths + 1] = of.worker
  end
end

-- Three values tell of each job.
local jobs, dead, values_max = {}, {}, limit * 3
for _, worker in ipairs(deaths) do
  local held = redis.call('SMEMBERS', key('held:') .. worker)
  if #held == 0 then
    write('LREM', key('deaths'), 1, worker)
  elseif #jobs < values_max then
    table.sort(held)
    dead[#dead + 1] = worker
    dead[#dead + 1] = held_at_death[worker] or redis.call('HGET', key('worker:') .. worker, 'held') or ''
    for i, text in ipairs(get_jobs(STATE, held)) do
      local is_running = text and is_sound(text) and string.sub(text, 1, 1) == 'r'
      if not is_running or string.sub(text, 56, 71) ~= worker then
        write('SREM', key('held:') .. worker, held[i])
        give_up(held[i])
      elseif #jobs < values_max then
        jobs[#jobs + 1] = held[i]
        jobs[#jobs + 1] = text
        jobs[#jobs + 1] = worker
      end
    end
  end
end
return answer({jobs, dead})
