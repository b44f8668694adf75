-- open: makes the layout of a namespace, or reads it. Runs without the parts that other scripts begin with.
-- KEYS[1] what all names of keys begin with
-- ARGV[1] the layout's version   ARGV[2] a random mark, the store's incarnation if this is its first opening
-- answers {version, incarnation}
local layout = KEYS[1] .. 'layout'
if redis.call('EXISTS', layout) == 0 then
  redis.call('HSET', layout, 'version', ARGV[1], 'incarnation', ARGV[2], 'catalogue', 0, 'types', 0)
end
return redis.call('HMGET', layout, 'version', 'incarnation')
