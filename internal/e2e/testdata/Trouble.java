// SPDX-License-Identifier: Apache-2.0
//
// Trouble: an HTTP server on a free port of the loopback, which it prints. It gets into each trouble that a line of its
// standard input names, and ends with it.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;

public class Trouble {
    static volatile boolean slow, failing, busy;
    static volatile long sink;

    static long recompute(long n) {
        long s = 0;
        for (long i = 0; i < n; i++) s += i * i % 7;
        return s;
    }

    static int reserve(int deep) {
        if (deep == 0) throw new IllegalStateException("none left");
        return reserve(deep - 1) + 1;
    }

    static void reserveInVain() {
        for (int i = 0; i < 300; i++) {
            try {
                sink += reserve(200);
            } catch (IllegalStateException again) {
                sink++;
            }
        }
    }

    static void answer(HttpExchange asked) throws IOException {
        if (slow && asked.getRequestURI().getPath().equals("/pay")) {
            try {
                Thread.sleep(2500);
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
        }
        if (failing && asked.getRequestURI().getPath().equals("/pay")) reserveInVain();
        byte[] text = "done\n".getBytes();
        asked.sendResponseHeaders(failing ? 503 : 200, text.length);
        asked.getResponseBody().write(text);
        asked.close();
    }

    static void start(Runnable body) {
        Thread t = new Thread(body);
        t.setDaemon(true);
        t.start();
    }

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0), 0);
        server.createContext("/", Trouble::answer);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        System.out.println(server.getAddress().getPort());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null;) {
            switch (line) {
                case "slow": slow = true; break;
                case "well": slow = failing = busy = false; break;
                case "failing": failing = true; break;
                case "busy": busy = true; start(() -> { while (busy) sink += recompute(30000); }); break;
                case "threads":
                    for (int i = 0; i < 100; i++) start(() -> {
                        for (;;) {
                            sink += recompute(30000);
                            try { Thread.sleep(200); } catch (InterruptedException e) { return; }
                        }
                    });
                    break;
            }
        }
        System.exit(0);
    }
}
