-- open: makes the layout of a namespace, or reads it. Runs without the parts that other scripts begin with.
-- keys layout, rollup_watermark, sequence
-- KEYS[1] what all names of keys begin with   KEYS[2] the same for ready lanes   KEYS[3] for scheduled lanes
-- ARGV[1] the layout's version   ARGV[2] a random mark, the store's store_epoch if this is its first opening
-- ARGV[3] the last number of a job that the caller knows, or 0
-- ARGV[4] the store_epoch that the caller knew before, or ''   ARGV[5] how often it knows the store to have been another one
-- ARGV[6] now in microseconds
-- answers {version, store_epoch, what ready lanes begin with, what scheduled lanes begin with, how often it was another one}
local layout = KEYS[1] .. 'layout'
local catalogue = tonumber(string.sub(ARGV[2], 1, 7), 16) or error('expected a mark, got ' .. ARGV[2])
local last_job = tonumber(ARGV[3]) or error('expected a number, got ' .. ARGV[3])
local sequence = tonumber(redis.call('GET', KEYS[1] .. 'sequence') or 0)
if redis.call('EXISTS', layout) == 0 then
  -- The catalogue's first version is random, too: a number that a process remembers of another store must not fit here.
  redis.call('HSET', layout, 'version', ARGV[1], 'store_epoch', ARGV[2], 'catalogue', catalogue, 'types', 0,
    'ready', KEYS[2], 'scheduled', KEYS[3])
  -- Of a store that begins here all is booked that there is: nothing. What another one has counted before anybody folded was not now.
  redis.call('HSET', KEYS[1] .. 'rollup_watermark', 'version', 0, 'booked', '')
end
-- Numbers that were given to jobs are not given to others, also if this store came back older and it was somebody else who
-- noticed, and knew of fewer.
local known = redis.call('HMGET', layout, 'version', 'store_epoch', 'noticed', 'replaced')
local is_ours = known[1] == ARGV[1]
if is_ours and sequence < last_job then
  redis.call('SET', KEYS[1] .. 'sequence', ARGV[3])
end
-- Everybody who knew the store as it was notices; one of them counts it. What the store itself knew of earlier times may be gone.
if is_ours and ARGV[4] ~= '' and ARGV[4] ~= known[2] and known[3] ~= known[2] then
  local times = math.max(tonumber(known[4]) or 0, tonumber(ARGV[5])) + 1
  redis.call('HSET', layout, 'noticed', known[2], 'replaced', times, 'replaced_at', ARGV[6])
end
return redis.call('HMGET', layout, 'version', 'store_epoch', 'ready', 'scheduled', 'replaced')
