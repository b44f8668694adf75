-- begin: what every script starts with: its arguments, the time, and a look whether this is the store it was sent to.
-- KEYS[1] what all names of keys begin with   KEYS[2] the same for ready lanes   KEYS[3] for scheduled lanes
-- ARGV[1] the incarnation that the caller knows   ARGV[2] the version of its catalogue, or '' if that does not matter
-- ARGV[3] now in microseconds, or '' for the server's clock   ARGV[4] the calling engine, or '' if nobody can wake it
-- ARGV[5] how many heartbeats of this store the caller knows of   ARGV[6] the last number of a job that it knows, or 0
-- answers {'lost'} if this is another store, {'older'} if it has forgotten what the caller knows of, {'stale'} if queues or
--         types have changed; nothing is written then

local ENGINE = ARGV[4]
local args_taken = 6

-- The next argument of this script.
local function arg()
  args_taken = args_taken + 1
  return ARGV[args_taken]
end

local function number_arg()
  return tonumber(arg())
end

local function key(name)
  return KEYS[1] .. name
end

-- Numbers of 16 digits: Lua itself would write 14 of them. What goes to many commands is written out once by this: the
-- server would do it each time, and more slowly.
local function digits(number)
  return string.format('%d', number)
end

local function read_clock()
  if ARGV[3] ~= '' then
    return tonumber(ARGV[3])
  end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local NOW = read_clock()
local NOW_DIGITS = digits(NOW)

do
  local layout = redis.call('HMGET', key('layout'), 'incarnation', 'catalogue', 'beats')
  if layout[1] ~= ARGV[1] then
    return {'lost'}
  end
  if ARGV[5] ~= '0' and (tonumber(layout[3]) or 0) < tonumber(ARGV[5]) then
    return {'older'}
  end
  if ARGV[2] ~= '' and layout[2] ~= ARGV[2] then
    return {'stale'}
  end
end

-- Lua can hand over only so many arguments at once. Even, because some commands take pairs.
local ARGS_MAX = 2000

-- A command with any number of arguments, in parts.
local function call_many(command, name, values)
  for first = 1, #values, ARGS_MAX do
    local last = math.min(first + ARGS_MAX - 1, #values)
    redis.call(command, name, unpack(values, first, last))
  end
end

-- The values of many fields of a hash, in the order of the fields.
local function get_many(name, fields)
  if #fields <= ARGS_MAX then
    return #fields > 0 and redis.call('HMGET', name, unpack(fields)) or {}
  end
  local values = {}
  for first = 1, #fields, ARGS_MAX do
    local last = math.min(first + ARGS_MAX - 1, #fields)
    for _, value in ipairs(redis.call('HMGET', name, unpack(fields, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Queues or types have changed. The version is the time of the change, so that a store which comes back older gives none
-- again that somebody remembers with other contents.
local function change_catalogue()
  local version = tonumber(redis.call('HGET', key('layout'), 'catalogue')) or 0
  redis.call('HSET', key('layout'), 'catalogue', digits(math.max(version + 1, NOW)))
end
