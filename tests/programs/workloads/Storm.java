// SPDX-License-Identifier: BSD-3-Clause
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntBinaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import java.util.zip.Inflater;

/**
 * What makes a virtual machine call malloc: direct buffers, zlib, threads, class loaders,
 * compilers, child processes.
 */
public final class Storm {
  private static String digest(byte[] bytes) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes), 0, 16);
  }

  private static long directBuffers(int seed, int rounds) {
    Random random = new Random(seed);
    ByteBuffer[] live = new ByteBuffer[64];
    CRC32 crc = new CRC32();
    for (int i = 0; i < rounds; i++) {
      ByteBuffer buffer =
          ByteBuffer.allocateDirect(1 + random.nextInt(i % 40 == 0 ? 500_000 : 6_000));
      for (int j = 0; j < buffer.capacity(); j++) {
        if (buffer.get(j) != 0)
          throw new AssertionError("a new direct buffer is not zero at " + j);
      }
      while (buffer.remaining() >= 8) buffer.putLong(random.nextLong());
      buffer.flip();
      int slot = random.nextInt(live.length);
      if (live[slot] != null)
        crc.update(live[slot]);
      live[slot] = buffer;
    }
    for (ByteBuffer b : live)
      if (b != null)
        crc.update(b);
    return crc.getValue();
  }

  private static String compress(int seed) throws Exception {
    Random random = new Random(seed);
    byte[] text = IntStream.range(0, 30_000)
                      .mapToObj(i -> "word" + random.nextInt(2_000))
                      .collect(Collectors.joining(" "))
                      .getBytes(StandardCharsets.UTF_8);
    StringBuilder result = new StringBuilder();
    for (int level = 1; level <= 9; level += 2) {
      Deflater deflater = new Deflater(level);
      deflater.setInput(text);
      deflater.finish();
      byte[] packed = new byte[text.length];
      int length = deflater.deflate(packed);
      deflater.end();
      Inflater inflater = new Inflater();
      inflater.setInput(packed, 0, length);
      byte[] back = new byte[text.length];
      if (inflater.inflate(back) != text.length || !Arrays.equals(back, text))
        throw new AssertionError("inflate");
      inflater.end();
      result.append(length).append(':').append(digest(Arrays.copyOf(packed, length))).append(' ');
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(bytes)) {
      out.write(text);
    }
    try (GZIPInputStream in = new GZIPInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      if (!Arrays.equals(in.readAllBytes(), text))
        throw new AssertionError("gzip");
    }
    return result.toString();
  }

  /** Loads this program's own classes anew, so that metaspace and constant pools come and go. */
  private static int loadClasses(Path directory) throws Exception {
    int loaded = 0;
    for (int i = 0; i < 60; i++) {
      try (
          URLClassLoader loader = new URLClassLoader(new URL[] {directory.toUri().toURL()}, null)) {
        Class<?> again = loader.loadClass("Storm$Hot");
        if (again == Hot.class)
          throw new AssertionError("not loaded anew");
        loaded += (Integer) again.getMethod("run", int.class).invoke(null, 1_000);
        Class<?> type = loader.loadClass("Storm$Face");
        Object proxy = Proxy.newProxyInstance(
            loader, new Class<?>[] {type}, (p, m, a) -> m.getName().length());
        loaded += (Integer) type.getMethod("length").invoke(proxy);
      }
    }
    return loaded;
  }

  /** An interface for proxies. */
  public interface Face {
    int length();
  }

  /** Code that is hot enough for both compilers of the virtual machine. */
  public static final class Hot {
    private static final IntBinaryOperator[] OPERATORS = {
        (a, b)
            -> a + b,
        (a, b)
            -> a ^ b,
        (a, b)
            -> a * 31 + b,
        (a, b) -> Integer.rotateLeft(a, b),
    };

    public static int run(int rounds) {
      int value = 1;
      for (int i = 0; i < rounds; i++) value = OPERATORS[i & 3].applyAsInt(value, i);
      return value & 0xff;
    }
  }

  private static String files(int seed, Path directory) throws IOException {
    Path file = directory.resolve("file" + seed);
    List<String> lines = IntStream.range(0, 5_000)
                             .mapToObj(i
                                 -> i + ":"
                                     + "é".repeat(i % 60))
                             .toList();
    Files.write(file, lines);
    long size = Files.size(file);
    if (!Files.readAllLines(file).equals(lines))
      throw new AssertionError("file");
    Files.delete(file);
    return "file " + size;
  }

  private static String task(int seed, Path directory) throws Exception {
    Thread[] threads = new Thread[20];
    for (int i = 0; i < threads.length; i++) {
      int n = i;
      threads[i] =
          new Thread(null, () -> directBuffers(seed * 100 + n, 50), "short" + i, 256 << 10);
      threads[i].start();
    }
    for (Thread thread : threads) thread.join();
    return seed + " " + Long.toHexString(directBuffers(seed, 3_000)) + " " + compress(seed)
        + files(seed, directory);
  }

  public static void main(String[] arguments) throws Exception {
    Path directory = Path.of(arguments[0]).toAbsolutePath();
    ExecutorService pool = Executors.newFixedThreadPool(6);
    List<Callable<String>> tasks = new ArrayList<>();
    for (int i = 0; i < 12; i++) {
      int seed = i;
      tasks.add(() -> task(seed, directory));
    }
    for (Future<String> future : pool.invokeAll(tasks)) System.out.println("task " + future.get());
    pool.shutdown();

    System.out.println("classes " + loadClasses(directory));
    System.out.println("hot " + Hot.run(50_000_000));
    ConcurrentHashMap<String, Integer> counts = new ConcurrentHashMap<>();
    IntStream.range(0, 1_000_000)
        .parallel()
        .forEach(i -> counts.merge("k" + i % 5_003, i % 7, Integer::sum));
    System.out.println(
        "map " + digest(new TreeMap<>(counts).toString().getBytes(StandardCharsets.UTF_8)));
    for (int i = 0; i < 3; i++) {
      ProcessBuilder builder =
          new ProcessBuilder("/bin/echo", "child " + i).redirectErrorStream(true);
      builder.environment().remove("MALLOCSTATS");
      Process child = builder.start();
      System.out.print(new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
      System.out.println("status " + child.waitFor());
      System.gc();
    }
    System.err.println("last words");
  }
}
