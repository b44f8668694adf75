-- begin: the start of every script: its arguments, the time, and a check that this is the store that the
-- caller opened.
-- keys layout
-- KEYS[1] the prefix of all keys   KEYS[2] the prefix of ready lanes   KEYS[3] the prefix of scheduled lanes
-- ARGV[1] the store epoch that the caller knows
-- ARGV[2] the version of its catalogue, or '' if that does not matter
-- ARGV[3] now in microseconds, or '' for the server's clock
-- ARGV[4] the calling engine, or '' if it cannot be woken
-- ARGV[5] how many heartbeats of this store the caller knows of
-- ARGV[6] the last job number that the caller knows, or 0
-- answers {'lost'} if this is another store, {'older'} if the store has forgotten heartbeats or jobs that the
--      caller knows of, {'stale'} if queues or types have changed; nothing is written then

local ENGINE = ARGV[4]
local args_taken = 6

-- The next argument of this script.
local function arg()
  args_taken = args_taken + 1
  return ARGV[args_taken] or error('expected at least ' .. args_taken .. ' arguments, got ' .. #ARGV)
end

local function number_arg()
  return tonumber(arg()) or error('expected a number as argument ' .. args_taken .. ', got ' .. ARGV[args_taken])
end

local function key(name)
  return KEYS[1] .. name
end

-- Writes out numbers of 16 digits: Lua itself would write 14 of them. A number that many commands use is
-- written out once by this function. The server would do it each time, and more slowly.
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

local LAYOUT = redis.call('HMGET', key('layout'), 'store_epoch', 'catalogue', 'beats', 'arrivals', 'triggers')
local BEATS, ARRIVALS = tonumber(LAYOUT[3]) or 0, tonumber(LAYOUT[4]) or 0

if LAYOUT[1] ~= ARGV[1] then
  return {'lost'}
end
if ARGV[5] ~= '0' and BEATS < tonumber(ARGV[5]) then
  return {'older'}
end
if ARGV[2] ~= '' and LAYOUT[2] ~= ARGV[2] then
  return {'stale'}
end

-- Lua can pass only a limited number of arguments at once. The number is even, because some commands take
-- pairs.
local ARGS_MAX = 2000

-- Sends a command with any number of arguments, in parts.
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

-- There is no rollback. So a script first records its changes, and makes them with its answer, after all
-- arguments and rows were read. An argument or row that cannot be read then leaves nothing half done. Guarded
-- by `script::tests::a_call_that_is_damaged_leaves_everything_as_it_was`.
local writes = {}

-- Checks what a command accepts, before anything is written: a wrong value would stop a script half way.
local function check_value(value)
  local kind_of_value = type(value)
  if kind_of_value ~= 'string' and kind_of_value ~= 'number' then
    error('expected a text or a number to write, got a ' .. kind_of_value)
  end
end

-- Records a command that changes data, to run later.
local function write(...)
  local command = {...}
  for i = 1, select('#', ...) do
    check_value(command[i])
  end
  writes[#writes + 1] = command
end

-- Records a command with any number of arguments.
local function write_many(command, name, values)
  for first = 1, #values, ARGS_MAX do
    write(command, name, unpack(values, first, math.min(first + ARGS_MAX - 1, #values)))
  end
end

-- Functions that write collected data after all reads and after the recorded commands, many values at once.
local writers = {}
local function on_write(writer)
  writers[#writers + 1] = writer
end

local function write_all()
  -- Adds the consequences of all recorded changes; see parts/ending.lua.
  if writers.first then
    writers.first()
  end
  for _, command in ipairs(writes) do
    redis.call(unpack(command))
  end
  writes = {}
  for _, writer in ipairs(writers) do
    writer()
  end
end

-- Records that queues or types have changed. The version is the time of the change. So a store that comes
-- back older never reuses a version that a process remembers with other contents.
local function change_catalogue()
  local version = tonumber(LAYOUT[2]) or 0
  write('HSET', key('layout'), 'catalogue', digits(math.max(version + 1, NOW)))
end
