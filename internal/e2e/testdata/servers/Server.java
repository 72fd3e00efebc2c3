// SPDX-License-Identifier: Apache-2.0
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.security.KeyStore;
import java.util.concurrent.Executors;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/** The JDK's HttpServer, with plaintext and through TLS. It is given its key store, the store's password, the pause of /slow in ms and the file of its log, and prints both ports. */
public class Server {
	public static void main(String[] args) throws Exception {
		long pause = Long.parseLong(args[2]);
		KeyStore store = KeyStore.getInstance("PKCS12");
		store.load(new FileInputStream(args[0]), args[1].toCharArray());
		KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
		keys.init(store, args[1].toCharArray());
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(keys.getKeyManagers(), null, null);
		HttpsServer secure = HttpsServer.create(local(), 0);
		secure.setHttpsConfigurator(new HttpsConfigurator(context));
		HttpServer plain = HttpServer.create(local(), 0);
		PrintStream log = new PrintStream(new FileOutputStream(args[3]), true);
		for (HttpServer server : new HttpServer[] {plain, secure}) {
			server.setExecutor(Executors.newFixedThreadPool(2));
			server.createContext("/", exchange -> answer(exchange, pause, log));
			server.start();
		}
		System.out.println(plain.getAddress().getPort() + " " + secure.getAddress().getPort());
	}

	static InetSocketAddress local() {
		return new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
	}

	static void answer(HttpExchange exchange, long pause, PrintStream log) throws IOException {
		long began = System.nanoTime();
		String path = exchange.getRequestURI().getPath();
		if (path.equals("/slow")) {
			try {
				Thread.sleep(pause);
			} catch (InterruptedException e) {
				throw new IOException(e);
			}
		}
		byte[] body = "java".getBytes();
		int status = path.equals("/slow") || path.equals("/here") ? 200 : 404;
		exchange.sendResponseHeaders(status, body.length);
		exchange.getResponseBody().write(body);
		exchange.close();
		log.println(exchange.getLocalAddress().getPort() + " " + path + " " + status + " " + (System.nanoTime() - began) / 1000);
	}
}
