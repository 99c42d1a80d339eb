-- SPDX-License-Identifier: BSD-3-Clause
-- Tables filled, indexed, joined, grouped and partly deleted. :rows is set on the command line.
CREATE TABLE items (id INTEGER PRIMARY KEY, grp INTEGER, name TEXT, payload TEXT);
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)
INSERT INTO items
  SELECT n, n * 7919 % 997, 'item-' || (n * 104729 % 1000003),
         substr(hex(n * 2654435761 % 4294967296) || 'abcdefghijklmnopqrstuvwxyz', 1, 8 + n % 24)
  FROM numbers;
CREATE INDEX items_by_name ON items (name);
CREATE INDEX items_by_group ON items (grp, payload);
SELECT count(*), sum(length(payload)) FROM items;
SELECT grp, count(*), group_concat(name) AS names FROM items GROUP BY grp
  ORDER BY length(names) DESC LIMIT 3;
SELECT count(*) FROM items AS a JOIN items AS b ON a.grp = b.grp AND a.id + 997 = b.id
  WHERE a.payload < b.payload;
UPDATE items SET payload = payload || name WHERE id % 3 = 0;
DELETE FROM items WHERE grp % 5 = 0;
SELECT count(DISTINCT payload) FROM items;
