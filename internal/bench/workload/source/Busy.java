// SPDX-License-Identifier: Apache-2.0
/** Keeps one thread busy for the seconds of its argument, with some garbage for the collector. */
public class Busy {
    static long mix(long x) {
        for (int i = 0; i < 200_000; i++) x = x * 6364136223846793005L + i;
        return x;
    }

    static long words(long x) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 2_000; i++) text.append(x + i).append(' ');
        return text.toString().hashCode();
    }

    public static void main(String[] args) {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        long x = 1;
        while (System.nanoTime() - end < 0) x = mix(x) ^ words(x);
        System.out.println("checksum " + x);
    }
}
