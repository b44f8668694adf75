-- forget_put_backs: notes that every claimer has read by now.
DELETE FROM windlass.put_backs WHERE at < clock_timestamp() - interval '1 minute';
