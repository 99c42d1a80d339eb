-- SPDX-License-Identifier: BSD-3-Clause
-- Tables, indices, updates in transactions, joins, windows, recursion, full text, JSON, blobs.
-- No random() and no clock: the numbers come from a linear congruential generator.
.bail on
.mode list
PRAGMA journal_mode = wal;
PRAGMA cache_size = -16000;
PRAGMA foreign_keys = on;

CREATE TABLE number (i INTEGER PRIMARY KEY, r INTEGER NOT NULL);
WITH RECURSIVE g(i, r) AS (
  SELECT 1, 20240611
  UNION ALL SELECT i + 1, (r * 1103515245 + 12345) % 2147483648 FROM g LIMIT 80000)
INSERT INTO number SELECT i, r / 8 FROM g;

CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE book (id INTEGER PRIMARY KEY,
                   author INTEGER NOT NULL REFERENCES author(id) ON DELETE CASCADE,
                   title TEXT NOT NULL, price REAL, body BLOB);
INSERT INTO author SELECT i, printf('author-%08x-%s', r, hex(i * 7919)) FROM number WHERE i <= 2000;
INSERT INTO book SELECT i, 1 + r % 2000, printf('%.*c %s %d', 1 + r % 60, 'abcdefghij', hex(r), i),
                        (r % 10000) / 100.0, zeroblob(r % 700) FROM number;
CREATE INDEX book_author ON book(author, price DESC);
CREATE INDEX book_title ON book(title COLLATE NOCASE);
ANALYZE;

SELECT 'rows', count(*), sum(length(title)), sum(length(body)), round(sum(price), 2) FROM book;
SELECT a.name, count(*), round(max(b.price), 2), group_concat(substr(b.title, -4), '/')
  FROM author a JOIN book b ON b.author = a.id
  GROUP BY a.id HAVING count(*) > 55 ORDER BY 2 DESC, 1;
SELECT * FROM (
  SELECT author, id, price, rank() OVER w, round(sum(price) OVER w, 2), lag(title, 2) OVER w
  FROM book WINDOW w AS (PARTITION BY author ORDER BY price DESC, id)) WHERE author % 97 = 0;

BEGIN;
UPDATE book SET title = title || '-' || hex(body) WHERE id % 7 = 0;
UPDATE book SET body = CAST(printf('%.*c', 20000 + id % 5000, 'z') AS BLOB) WHERE id % 1009 = 0;
DELETE FROM author WHERE id % 11 = 0;
SAVEPOINT inner_point;
DELETE FROM book;
ROLLBACK TO inner_point;
COMMIT;
SELECT 'after', count(*), sum(length(title)), sum(length(body)) FROM book;
BEGIN;
INSERT INTO book
  SELECT id + 1000000, author, upper(title), price * 2, body FROM book WHERE id % 3 = 0;
ROLLBACK;
SELECT title, length(body) FROM book WHERE title LIKE 'a%7'
  ORDER BY title COLLATE NOCASE, id LIMIT 500;
SELECT count(*) FROM book x JOIN book y ON x.price = y.price AND x.id < y.id WHERE x.author < 300;

CREATE VIRTUAL TABLE text USING fts5(line);
INSERT INTO text
  SELECT printf('word%d term%d item%d also%d %s',
                r % 100, r % 977, i % 31, r / 1000 % 500, hex(r)) FROM number;
SELECT 'match', count(*) FROM text WHERE text MATCH 'word7 AND term8*';
SELECT rowid, highlight(text, 0, '[', ']') FROM text
  WHERE text MATCH 'item5 NOT also4*' AND rowid % 37 = 0 ORDER BY rowid LIMIT 300;
INSERT INTO text(text) VALUES ('optimize');
INSERT INTO text(text) VALUES ('integrity-check');

CREATE TABLE document (id INTEGER PRIMARY KEY, j TEXT);
INSERT INTO document
  SELECT i, json_object('id', i, 'tags', json_array(r % 5, r % 7, hex(r)),
                        'nested', json_object('pad', printf('%.*c', r % 300, 'p')))
  FROM number WHERE i <= 20000;
SELECT 'json', sum(json_extract(j, '$.tags[0]')), sum(length(json_extract(j, '$.nested.pad')))
  FROM document;
SELECT t.value, count(*) FROM document, json_each(j, '$.tags') t
  WHERE t.type = 'integer' GROUP BY 1 ORDER BY 1;
SELECT length(json_group_array(json(j))) FROM document WHERE id % 5 = 0;

WITH RECURSIVE fib(n, a, b) AS (
  SELECT 1, '1', '1' UNION ALL SELECT n + 1, b, a || b FROM fib WHERE n < 24)
SELECT n, length(a), substr(a, -10) FROM fib;
VACUUM;
PRAGMA integrity_check;
PRAGMA foreign_key_check;
SELECT 'end', total_changes();
