-- peek: when the next jobs of these queues and types fall due.
-- keys those of its parts
-- ARGV number of queues, then each as parts/lanes.lua says
-- answers for each queue whether more is due, when the next job falls due and whether a suspect is due
local rows = {}
for i, queue in ipairs(queue_args()) do
  rows[i] = look_ahead(busy_lanes(queue.paused and {} or queue.types))
end
return answer(rows)
