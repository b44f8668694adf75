-- rescue: declares workers dead that are as silent as they were seen, and lists jobs that dead workers hold. What becomes
-- of those core decides; settle writes it, by the fence of the dead.
-- ARGV at most so many jobs, number of workers, for each: worker and its beats as they were seen
-- answers a list of jobs and a list of the dead: of each job id, state and worker; of each worker its id and the jobs that
--         it held when it was declared dead (14 digits each)
local limit = number_arg()

local function declare_dead(worker, beats)
  -- Who is not listed was let out or declared dead before.
  if redis.call('SISMEMBER', key('workers'), worker) == 0 then
    return
  end
  local row = key('worker:') .. worker
  local seen = redis.call('HMGET', row, 'beats', 'expires')
  local expires = tonumber(seen[2]) or NOW
  if (tonumber(seen[1]) or 0) ~= beats or expires > NOW then
    return
  end
  local held = redis.call('SMEMBERS', key('held:') .. worker)
  table.sort(held)
  redis.call('HSET', row, 'dead', '1', 'held', table.concat(held))
  redis.call('SREM', key('workers'), worker)
  redis.call('ZADD', key('graves'), digits(expires), worker)
  redis.call('RPUSH', key('deaths'), worker)
end

for _ = 1, number_arg() do
  declare_dead(arg(), number_arg())
end

-- Three values tell of each job.
local jobs, dead, values_max = {}, {}, limit * 3
for _, worker in ipairs(redis.call('LRANGE', key('deaths'), 0, -1)) do
  local held = redis.call('SMEMBERS', key('held:') .. worker)
  if #held == 0 then
    redis.call('LREM', key('deaths'), 1, worker)
  elseif #jobs < values_max then
    table.sort(held)
    dead[#dead + 1] = worker
    dead[#dead + 1] = redis.call('HGET', key('worker:') .. worker, 'held') or ''
    for _, id in ipairs(held) do
      local text = get_job(STATE, id)
      local is_running = text and is_sound(text) and string.sub(text, 1, 1) == 'r'
      if not is_running or string.sub(text, 56, 71) ~= worker then
        redis.call('SREM', key('held:') .. worker, id)
        give_up(id)
      elseif #jobs < values_max then
        jobs[#jobs + 1] = id
        jobs[#jobs + 1] = text
        jobs[#jobs + 1] = worker
      end
    end
  end
end
return answer({jobs, dead})
