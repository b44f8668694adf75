-- open: makes the layout of a namespace, or reads it. Runs without the parts that other scripts begin with.
-- KEYS[1] what all names of keys begin with   KEYS[2] the same for ready lanes   KEYS[3] for scheduled lanes
-- ARGV[1] the layout's version   ARGV[2] a random mark, the store's incarnation if this is its first opening
-- answers {version, incarnation, what ready lanes begin with, what scheduled lanes begin with}
local layout = KEYS[1] .. 'layout'
if redis.call('EXISTS', layout) == 0 then
  -- The catalogue's first version is random, too: a number that a process remembers of another store must not fit here.
  local catalogue = tonumber(string.sub(ARGV[2], 1, 7), 16)
  redis.call('HSET', layout, 'version', ARGV[1], 'incarnation', ARGV[2], 'catalogue', catalogue, 'types', 0,
    'ready', KEYS[2], 'scheduled', KEYS[3])
end
return redis.call('HMGET', layout, 'version', 'incarnation', 'ready', 'scheduled')
