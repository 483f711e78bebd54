import java.io.*;
import java.lang.management.ManagementFactory;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLongArray;

/** Keeps a heap that is collected all the time, threads and a timer, and tells of them at a socket. */
public class Count {
    static final Map<Integer, String> heap = new TreeMap<>();
    static final AtomicLongArray counts = new AtomicLongArray(5);

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 100_000; i++) heap.put(i, "value " + i);
        for (int i = 0; i < 4; i++) {
            int mine = i;
            Thread t = new Thread(() -> work(mine), "counter-" + i);
            t.setDaemon(true);
            t.start();
        }
        Executors.newSingleThreadScheduledExecutor()
            .scheduleAtFixedRate(() -> counts.incrementAndGet(4), 5, 5, TimeUnit.MILLISECONDS);
        RandomAccessFile journal = new RandomAccessFile("/tmp/journal", "rw");
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of("/tmp/state.sock"));
        for (int asked = 1; ; asked++) {
            try (SocketChannel client = server.accept()) {
                journal.writeBytes("asked " + asked + "\n");
                client.write(ByteBuffer.wrap(state(journal.getFilePointer()).getBytes("UTF-8")));
            }
        }
    }

    static void work(int i) {
        while (true) {
            byte[][] garbage = new byte[64][];
            for (int j = 0; j < garbage.length; j++) garbage[j] = new byte[1024];
            counts.incrementAndGet(i);
            try { Thread.sleep(2); } catch (InterruptedException e) { return; }
        }
    }

    static String state(long offset) throws Exception {
        System.gc();
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (Map.Entry<Integer, String> e : heap.entrySet()) digest.update((e.getKey() + e.getValue()).getBytes("UTF-8"));
        String journal = new String(Files.readAllBytes(Path.of("/tmp/journal")), "UTF-8").replace("\n", "\\n");
        return String.format("{\"pid\":%d,\"heap\":\"%s\",\"identity\":%d,\"counts\":%s,\"offset\":%d,\"journal\":\"%s\"}",
            ManagementFactory.getRuntimeMXBean().getPid(), HexFormat.of().formatHex(digest.digest()),
            System.identityHashCode(heap), counts, offset, journal);
    }
}
