-- open: creates the layout of a namespace, or reads it. Runs without the parts that other scripts begin with.
-- keys layout, rollup_watermark, sequence
-- KEYS[1] the prefix of all keys   KEYS[2] the prefix of ready lanes   KEYS[3] the prefix of scheduled lanes
-- ARGV[1] the layout's version
-- ARGV[2] a random id, which becomes the store epoch if this is the first opening
-- ARGV[3] the last job number that the caller knows, or 0
-- ARGV[4] the store epoch that the caller knew before, or ''
-- ARGV[5] how many replacements of the store the caller knows of
-- ARGV[6] now in microseconds
-- answers {version, store epoch, prefix of ready lanes, prefix of scheduled lanes, number of replacements}
local layout = KEYS[1] .. 'layout'
local catalogue = tonumber(string.sub(ARGV[2], 1, 7), 16) or error('expected a random id in hex, got ' .. ARGV[2])
local last_job = tonumber(ARGV[3]) or error('expected a number, got ' .. ARGV[3])
local sequence = tonumber(redis.call('GET', KEYS[1] .. 'sequence') or 0)
if redis.call('EXISTS', layout) == 0 then
  -- The first version of the catalogue is random, too: a version that a process remembers from another store
  -- must not match here.
  redis.call('HSET', layout, 'version', ARGV[1], 'store_epoch', ARGV[2], 'catalogue', catalogue, 'types', 0,
    'ready', KEYS[2], 'scheduled', KEYS[3])
  -- The totals of a new store are all in its rollups: there are none. What another store counted before its
  -- first rollup did not happen now.
  redis.call('HSET', KEYS[1] .. 'rollup_watermark', 'version', 0, 'booked', '')
end
-- A job number is never assigned twice. This also holds if this store came back older and the process that
-- noticed it knew of fewer jobs than this caller.
local known = redis.call('HMGET', layout, 'version', 'store_epoch', 'noticed', 'replaced')
local is_ours = known[1] == ARGV[1]
if is_ours and sequence < last_job then
  redis.call('SET', KEYS[1] .. 'sequence', ARGV[3])
end
-- Every process that knew the store before notices the replacement; one of them counts it. The store's own
-- count of earlier replacements may be lost.
if is_ours and ARGV[4] ~= '' and ARGV[4] ~= known[2] and known[3] ~= known[2] then
  local times = math.max(tonumber(known[4]) or 0, tonumber(ARGV[5])) + 1
  redis.call('HSET', layout, 'noticed', known[2], 'replaced', times, 'replaced_at', ARGV[6])
end
return redis.call('HMGET', layout, 'version', 'store_epoch', 'ready', 'scheduled', 'replaced')
