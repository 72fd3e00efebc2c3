// Keeps the interpreter, compiled code, the compilers and the garbage collector busy until it is killed.
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.Deflater;

public class Work {
    static volatile Object sink;

    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    static void collections(Random random) {
        Map<String, Integer> map = new HashMap<>();
        TreeMap<Integer, String> tree = new TreeMap<>();
        for (int i = 0; i < 5000; i++) {
            map.merge("k" + i % 997, 1, Integer::sum);
            tree.put(random.nextInt(), "v" + i);
        }
        sink = tree;
        sink = map;
    }

    static void streams() {
        List<Integer> list = IntStream.range(0, 20000).boxed().collect(Collectors.toCollection(ArrayList::new));
        sink = list.stream().filter(i -> i % 3 == 1).map(i -> i * 31 % 1009).sorted().collect(Collectors.groupingBy(i -> i % 10));
    }

    static void libraries(String text) throws Exception {
        sink = Pattern.compile("(\\w+?)(\\d+)\\s").matcher(text).replaceAll("$2$1");
        sink = MessageDigest.getInstance("SHA-256").digest(text.getBytes());
        Deflater deflater = new Deflater();
        deflater.setInput(text.getBytes());
        deflater.finish();
        sink = deflater.deflate(new byte[100000]);
        deflater.end();
    }

    static void run() {
        String text = IntStream.range(0, 2000).mapToObj(i -> "word" + i * 7919L % 1000).collect(Collectors.joining(" "));
        Random random = new Random();
        try {
            while (true) {
                sink = fib(20);
                collections(random);
                streams();
                libraries(text);
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) {
        new Thread(Work::run, "second").start();
        run();
    }
}
