// Keeps V8's compiled code, its builtins, its garbage collector and node's thread pool busy until it is killed.
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');

const text = Array.from({ length: 2000 }, (_, i) => 'word' + (i * 7919 % 1000)).join(' ');

function fib(n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

class Tree {
  constructor(value) {
    this.value = value;
    this.left = this.right = null;
  }

  insert(value) {
    const side = value < this.value ? 'left' : 'right';
    if (this[side] === null) this[side] = new Tree(value);
    else this[side].insert(value);
  }
}

const work = [
  () => fib(22),
  () => { const t = new Tree(0.5); for (let i = 0; i < 3000; i++) t.insert(Math.random()); },
  () => JSON.parse(JSON.stringify(Array.from({ length: 2000 }, (_, i) => ({ i, s: String(i), x: i / 3 })))),
  () => text.replace(/(\w+?)(\d+)\s/g, (_, w, d) => d + w),
  () => Array.from({ length: 5000 }, Math.random).sort((a, b) => a - b),
  () => crypto.createHash('sha256').update(text).digest('hex'),
  () => zlib.gunzipSync(zlib.gzipSync(text)),
  () => { const m = new Map(); for (let i = 0; i < 5000; i++) m.set('k' + i, i); return m.size; },
];

async function main() {
  for (;;) {
    for (const w of work) w();
    await new Promise((done, fail) => zlib.deflate(text, (err) => (err ? fail(err) : done())));
    await new Promise((done) => setImmediate(done));
  }
}

main();
