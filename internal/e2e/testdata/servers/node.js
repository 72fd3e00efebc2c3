// SPDX-License-Identifier: Apache-2.0
// Node.js's own servers: HTTP/1.1 in the clear, HTTP/2 in the clear, and both through TLS. It is given the files of its certificate and
// key and the pause of /slow in ms, and prints the three ports.
const fs = require('fs'), http = require('http'), http2 = require('http2');
const [cert, key, pause] = process.argv.slice(2);

function answer(request, response) {
  const status = {'/here': 200, '/slow': 200}[request.url] || 404;
  setTimeout(() => {
    response.writeHead(status, {'Content-Type': 'text/plain'});
    response.end('node');
  }, request.url === '/slow' ? Number(pause) : 0);
}

const secure = http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true}, answer);
const servers = [http.createServer(answer), http2.createServer(answer), secure];
let waiting = servers.length;
for (const server of servers) {
  server.listen(0, '127.0.0.1', () => {
    if (--waiting === 0) console.log(servers.map((s) => s.address().port).join(' '));
  });
}
