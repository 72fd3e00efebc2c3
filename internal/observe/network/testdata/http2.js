// SPDX-License-Identifier: Apache-2.0
// Speaks HTTP/2 by Node.js, in the clear or, given the files of a certificate and its key, through TLS. A server prints its
// port; a client is given that and how often to ask for each path of a line, all on one connection at the same time. It
// prints how often it was answered.
const http2 = require('http2'), fs = require('fs'), readline = require('readline');
const body = Buffer.alloc(20000, 'x');

function serve(cert, key) {
  const server = cert ? http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key)}) : http2.createServer();
  server.on('stream', (stream, headers) => {
    stream.respond({':status': headers[':path'] === '/absent' ? 404 : 200, 'content-length': body.length});
    stream.end(body);
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}

function once(session, path) {
  return new Promise((resolve, reject) => {
    const stream = session.request({':path': path});
    let length = 0;
    stream.on('data', (piece) => { length += piece.length; });
    stream.on('end', () => resolve(length === body.length ? 1 : 0));
    stream.on('error', reject);
    stream.end();
  });
}

async function ask(session, paths, times) {
  const all = [];
  for (const path of paths) for (let i = 0; i < times; i++) all.push(once(session, path));
  return (await Promise.all(all)).reduce((sum, n) => sum + n, 0);
}

const [what, first, second] = process.argv.slice(2);
if (what === 'server') {
  serve(first, second);
} else {
  console.log('ready');
  readline.createInterface({input: process.stdin}).on('line', async (line) => {
    const session = http2.connect(`${what === 'client-tls' ? 'https' : 'http'}://127.0.0.1:${first}`, {rejectUnauthorized: false});
    const counted = await ask(session, line.split(' '), Number(second));
    session.close(() => console.log(counted));
  });
}
