// SPDX-License-Identifier: Apache-2.0
// Node.js's own servers: plaintext HTTP/1.1, plaintext HTTP/2, and both through TLS. It is given the files of its certificate and
// key, the pause of /slow in ms and the file of its log, and prints the three ports.
const fs = require('fs'), http = require('http'), http2 = require('http2');
const [cert, key, pause, log] = process.argv.slice(2);
const logged = fs.openSync(log, 'a');

function answer(request, response) {
  const status = {'/here': 200, '/slow': 200}[request.url] || 404, port = request.socket.localPort, began = process.hrtime.bigint();
  response.on('finish', () => fs.writeSync(logged, `${port} ${request.url} ${status} ${(process.hrtime.bigint() - began) / 1000n}\n`));
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
