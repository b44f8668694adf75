-- open_gate: lets the oldest jobs through a gate, at most so many.
-- keys gate:
-- ARGV gate, at most so many
-- answers how many went through, and '1' if there are more behind it
local gate, limit = arg(), number_arg()
local through = let_through(gate, limit)
write_all()
return answer({digits(through), redis.call('ZCARD', key('gate:') .. gate) > 0 and '1' or ''})
