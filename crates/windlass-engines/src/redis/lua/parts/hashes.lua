-- hashes: the hashes of the states and bodies of jobs, each as a field with the job's id.
--
-- Each hash contains the states or bodies of 100,000 jobs, and the first digits of their ids name it. In one
-- hash for all jobs, a lookup misses the processor's caches as soon as there are a million jobs. When such a
-- hash outgrows its table, every command moves a part of it to a larger one: while it does, jobs run at 0.6
-- of their pace. Much smaller hashes are no faster, and jobs that leave in another order than they came would
-- need a command each.
-- keys body:, state:

local STATE, BODY = key('state:'), key('body:')

local get_jobs, set_jobs, delete_jobs, get_job
-- In a block of its own: a function may have 200 local names at a time, and all parts of a script share them.
do
  local RANGE_DIGITS = 9
  local RANGE_FIRST, RANGE_LAST = '00000', '99999'

  -- The hash that contains a job.
  local function hash_of(name, id)
    return name .. string.sub(id, 1, RANGE_DIGITS)
  end

  -- The hash that contains all of these jobs; nil if they are in several. Jobs that were enqueued together
  -- have neighbouring numbers and mostly leave together, so nearly always there is one hash. Every `step`-th
  -- value is an id.
  local function shared_hash(name, values, step)
    local range = string.sub(values[1], 1, RANGE_DIGITS)
    -- Ids are compared as texts: cutting each of them would take more than twice as long.
    local first, last = range .. RANGE_FIRST, range .. RANGE_LAST
    for i = 1 + step, #values, step do
      local id = values[i]
      if id < first or id > last then
        return nil
      end
    end
    return name .. range
  end

  -- The states or bodies of jobs that are in several hashes, in the order of their ids.
  local function get_scattered(name, ids)
    local sorted, places, values = {}, {}, {}
    for i, id in ipairs(ids) do
      local hash = hash_of(name, id)
      sorted[hash], places[hash] = sorted[hash] or {}, places[hash] or {}
      table.insert(sorted[hash], id)
      table.insert(places[hash], i)
    end
    for hash, of_it in pairs(sorted) do
      for i, value in ipairs(get_many(hash, of_it)) do
        values[places[hash][i]] = value
      end
    end
    return values
  end

  -- The states or bodies of many jobs, in the order of their ids.
  function get_jobs(name, ids)
    if #ids == 0 then
      return {}
    end
    local hash = shared_hash(name, ids, 1)
    return hash and get_many(hash, ids) or get_scattered(name, ids)
  end

  -- Sends a command on jobs that are in several hashes.
  local function call_scattered(command, name, values, step)
    local sorted = {}
    for i = 1, #values, step do
      local hash = hash_of(name, values[i])
      sorted[hash] = sorted[hash] or {}
      for n = i, i + step - 1 do
        table.insert(sorted[hash], values[n])
      end
    end
    for hash, of_it in pairs(sorted) do
      call_many(command, hash, of_it)
    end
  end

  local function call_jobs(command, name, values, step)
    local hash = #values > 0 and shared_hash(name, values, step)
    if hash then
      call_many(command, hash, values)
    else
      call_scattered(command, name, values, step)
    end
  end

  -- Writes the states or bodies of many jobs: ids and values in turn.
  function set_jobs(name, values)
    call_jobs('HSET', name, values, 2)
  end

  function delete_jobs(ids)
    call_jobs('HDEL', STATE, ids, 1)
    call_jobs('HDEL', BODY, ids, 1)
  end

  function get_job(name, id)
    return redis.call('HGET', hash_of(name, id), id)
  end
end
