-- hashes: where the states and bodies of jobs lie, each as a field with the job's id.
--
-- States and bodies lie in hashes of 100,000 jobs each, named by the first digits of their ids. In one hash for all, a lookup
-- misses the processor's caches as soon as there are a million jobs; and when such a hash outgrows its table, every command
-- moves a part of it to a larger one, for so long that jobs run at 0.6 of their pace. Much smaller hashes are no faster, and
-- jobs that leave in another order than they came would need a command each.

local RANGE_DIGITS = 9
local STATE, BODY = key('state:'), key('body:')

-- The one of these hashes that holds a job.
local function hash_of(name, id)
  return name .. string.sub(id, 1, RANGE_DIGITS)
end

-- The one that holds all of these jobs; nothing if they lie in several. Jobs that came together have neighbouring numbers and
-- mostly leave together, so nearly always there is one. Every `step`-th value is an id.
local function shared_hash(name, values, step)
  local range = string.sub(values[1], 1, RANGE_DIGITS)
  for i = 1 + step, #values, step do
    if string.sub(values[i], 1, RANGE_DIGITS) ~= range then
      return nil
    end
  end
  return name .. range
end

-- Ids that lie in several hashes, by hash: tables of ids, and of their places in the list.
local function ids_by_hash(name, ids)
  local sorted, places = {}, {}
  for i, id in ipairs(ids) do
    local hash = hash_of(name, id)
    sorted[hash], places[hash] = sorted[hash] or {}, places[hash] or {}
    table.insert(sorted[hash], id)
    table.insert(places[hash], i)
  end
  return sorted, places
end

-- The states or bodies of many jobs, in the order of their ids.
local function get_jobs(name, ids)
  local hash = #ids > 0 and shared_hash(name, ids, 1)
  if hash or #ids == 0 then
    return hash and get_many(hash, ids) or {}
  end
  local values = {}
  local sorted, places = ids_by_hash(name, ids)
  for one, of_it in pairs(sorted) do
    for i, value in ipairs(get_many(one, of_it)) do
      values[places[one][i]] = value
    end
  end
  return values
end

-- Writes the states or bodies of many jobs: ids and values in turn.
local function set_jobs(name, values)
  local hash = #values > 0 and shared_hash(name, values, 2)
  if hash or #values == 0 then
    return hash and call_many('HSET', hash, values)
  end
  local sorted = {}
  for i = 1, #values, 2 do
    local one = hash_of(name, values[i])
    sorted[one] = sorted[one] or {}
    table.insert(sorted[one], values[i])
    table.insert(sorted[one], values[i + 1])
  end
  for one, of_it in pairs(sorted) do
    call_many('HSET', one, of_it)
  end
end

-- Deletes states and bodies of many jobs.
local function delete_jobs(ids)
  for _, name in ipairs({STATE, BODY}) do
    for hash, of_it in pairs((ids_by_hash(name, ids))) do
      call_many('HDEL', hash, of_it)
    end
  end
end

local function get_job(name, id)
  return redis.call('HGET', hash_of(name, id), id)
end

local function set_job(name, id, value)
  redis.call('HSET', hash_of(name, id), id, value)
end
