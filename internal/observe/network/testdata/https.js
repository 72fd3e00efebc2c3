// SPDX-License-Identifier: Apache-2.0
// Speaks HTTPS by Node.js. As a server it is given the files of its certificate and key and prints its port; as a
// client, a port and how often to ask for each path of a line. It prints how often it was answered.
const https = require('https'), fs = require('fs'), readline = require('readline');
const body = Buffer.alloc(20000, 'x');

function serve(cert, key) {
  const server = https.createServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key)}, (request, response) => {
    response.writeHead(request.url === '/absent' ? 404 : 200, {'Content-Length': body.length});
    response.end(body);
  });
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
}

function once(agent, port, path) {
  return new Promise((resolve, reject) => {
    https.get({host: '127.0.0.1', port, path, agent, rejectUnauthorized: false}, (response) => {
      let length = 0;
      response.on('data', (piece) => { length += piece.length; });
      response.on('end', () => resolve(length === body.length ? 1 : 0));
    }).on('error', reject);
  });
}

async function ask(port, path, times) {
  const agent = new https.Agent({keepAlive: true, maxSockets: 1});
  let counted = 0;
  for (let i = 0; i < times; i++) counted += await once(agent, port, path);
  agent.destroy();
  return counted;
}

const [what, first, second] = process.argv.slice(2);
if (what === 'server') {
  serve(first, second);
} else {
  console.log('ready');
  readline.createInterface({input: process.stdin}).on('line', async (line) => {
    const counts = await Promise.all(line.split(' ').map((path) => ask(Number(first), path, Number(second))));
    console.log(counts.reduce((sum, n) => sum + n, 0));
  });
}
