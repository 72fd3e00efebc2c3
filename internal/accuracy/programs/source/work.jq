# Never ends, prints nothing.
def fib: if . < 2 then . else (. - 1 | fib) + (. - 2 | fib) end;
def work:
  [range(300) | {k: (. * 7919 % 1000 | tostring), v: ., l: [range(5)]}]
  | (group_by(.k[0:1]) | map({n: length, s: (map(.v) | add)})),
    (map(.k) | sort | join(" ") | [scan("([0-9])([0-9]+)")] | length),
    (tojson | fromjson | map(.l | add) | add),
    (12 | fib);
last(repeat(null) | [work] | empty)
