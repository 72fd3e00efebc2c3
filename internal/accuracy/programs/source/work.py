# Keeps the interpreter and the C libraries below it busy until it is killed.
import bz2, decimal, hashlib, json, random, re, sqlite3, threading, zlib

TEXT = " ".join(random.choice(["alpha", "beta", "gamma", "delta"]) + str(i) for i in range(2000))


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Node:
    def __init__(self, value):
        self.value, self.left, self.right = value, None, None

    def insert(self, value):
        side = "left" if value < self.value else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Node(value))
        else:
            child.insert(value)


def tree():
    root = Node(0.5)
    for _ in range(500):
        root.insert(random.random())


def database():
    db = sqlite3.connect(":memory:")
    db.execute("create table t (a integer primary key, b text)")
    db.executemany("insert into t values (?, ?)", ((i, str(i * 7919 % 1000)) for i in range(1000)))
    db.execute("select b, count(*) from t where b like '%7%' group by b order by 2 desc, 1").fetchall()


WORK = [
    lambda: fib(17),
    tree,
    database,
    lambda: json.loads(json.dumps({"k%d" % i: [i, str(i), {"x": i / 3}] for i in range(500)})),
    lambda: re.findall(r"(\w+?)(\d+)\s+(?=[ab])", TEXT),
    lambda: zlib.decompress(zlib.compress(TEXT.encode())),
    lambda: bz2.compress(TEXT.encode()),
    lambda: hashlib.sha256(TEXT.encode() * 10).hexdigest(),
    lambda: sorted((random.random() for _ in range(3000)), key=lambda x: -x),
    lambda: sum(decimal.Decimal(i) / 7 for i in range(300)),
]


def run():
    while True:
        for work in WORK:
            work()


for _ in range(2):
    threading.Thread(target=run, daemon=True).start()
run()
