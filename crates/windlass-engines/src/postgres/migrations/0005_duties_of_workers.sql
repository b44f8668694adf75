-- Which duties a worker could do for all: who stands by for one is chosen among those.
ALTER TABLE windlass.workers ADD COLUMN duties text[] NOT NULL DEFAULT '{}';
