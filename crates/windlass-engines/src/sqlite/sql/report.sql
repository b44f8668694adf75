-- report: stores progress, only while the caller still holds the claim.
-- ?1 id   ?2 token   ?3 progress
UPDATE delayed_jobs SET progress = ?3 WHERE id = ?1 AND token = ?2;
