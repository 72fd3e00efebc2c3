select bid, count(*), avg(abalance), max(md5(filler || aid)) from pgbench_accounts where aid % 7 = 3 group by bid order by 2 desc;
select count(*) from pgbench_accounts a join pgbench_accounts b on a.aid = b.aid + 1 where a.aid < 5000;
select count(*) from generate_series(1, 3000) i where i::text ~ '^1+(2|3)*[4-9]$';
select sum((j->>'a')::int) from (select json_build_object('a', i, 'b', array[i, i]) j from generate_series(1, 2000) i) x;
select aid from pgbench_accounts order by md5(aid::text) limit 10;
