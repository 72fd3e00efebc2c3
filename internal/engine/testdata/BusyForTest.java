// SPDX-License-Identifier: Apache-2.0
//
// BusyForTest MILLISECONDS: uses that much CPU time, 70 % of it in hot() and 30 %
// in cold(), and prints the nanoseconds of both.
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

public class BusyForTest {
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    static volatile long sink;

    static long hot(long n) {
        long s = 0;
        for (long i = 0; i < n; i++) s += i * i % 7;
        return s;
    }

    static long cold(long n) {
        long s = 0;
        for (long i = 0; i < n; i++) s += i * i % 7;
        return s;
    }

    public static void main(String[] arguments) {
        long end = Long.parseLong(arguments[0]) * 1000000L, cycle = 16180340L;
        long[] spent = new long[2];
        for (long before = THREADS.getCurrentThreadCpuTime(); before < end;) {
            int turn = before % cycle >= cycle / 10 * 7 ? 1 : 0;
            sink += turn == 0 ? hot(30000) : cold(30000);
            long now = THREADS.getCurrentThreadCpuTime();
            spent[turn] += now - before;
            before = now;
        }
        System.out.println(spent[0] + " " + spent[1]);
    }
}
