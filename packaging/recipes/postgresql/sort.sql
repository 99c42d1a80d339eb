\pset tuples_only
SELECT pg_backend_pid() AS pid \gset
\setenv BACKEND :pid
SET work_mem = '256MB';
SELECT count(*) FROM (SELECT * FROM pgbench_accounts ORDER BY filler, aid DESC OFFSET 0) AS sorted;
\! tcmalloc profile --type peak $BACKEND --top 1
\! tcmalloc doctor $BACKEND
