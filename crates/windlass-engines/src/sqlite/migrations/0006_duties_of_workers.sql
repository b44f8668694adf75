-- Which duties a worker could do for all, as a JSON array: who stands by for one is chosen among those.
ALTER TABLE workers ADD COLUMN duties TEXT NOT NULL DEFAULT '[]';
