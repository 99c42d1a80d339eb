import java.nio.ByteBuffer;
import java.util.ArrayList;

class Memory {
  public static void main(String[] args) throws Exception {
    var heap = new ArrayList<byte[]>();
    var direct = new ArrayList<ByteBuffer>();
    for (int i = 0; i < 100; i++) {
      heap.add(new byte[1 << 20]);
      direct.add(ByteBuffer.allocateDirect(1 << 20));
    }
    System.out.println(heap.size() + direct.size() + " buffers");
    Thread.sleep(1_000_000);
  }
}
