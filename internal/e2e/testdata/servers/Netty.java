// SPDX-License-Identifier: Apache-2.0
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.ssl.OpenSsl;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;

/**
 * netty with OpenSSL (netty-tcnative), which works on memory. It is given the files of its certificate and key, the pause of /slow in ms and the
 * file of its log, and prints its port, with plaintext and through TLS.
 */
public class Netty {
	public static void main(String[] args) throws Exception {
		long pause = Long.parseLong(args[2]);
		OpenSsl.ensureAvailability();
		SslContext context = SslContextBuilder.forServer(new File(args[0]), new File(args[1])).sslProvider(SslProvider.OPENSSL).build();
		PrintStream log = new PrintStream(new FileOutputStream(args[3]), true);
		System.out.println(listen(null, pause, log) + " " + listen(context, pause, log));
	}

	static int listen(SslContext context, long pause, PrintStream log) throws Exception {
		ServerBootstrap server = new ServerBootstrap();
		server.group(new NioEventLoopGroup(1)).channel(NioServerSocketChannel.class).childHandler(new ChannelInitializer<SocketChannel>() {
			@Override
			protected void initChannel(SocketChannel channel) {
				if (context != null) {
					channel.pipeline().addLast(context.newHandler(channel.alloc()));
				}
				channel.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(1 << 20), new Answer(pause, log));
			}
		});
		return ((InetSocketAddress) server.bind("127.0.0.1", 0).sync().channel().localAddress()).getPort();
	}

	static class Answer extends SimpleChannelInboundHandler<FullHttpRequest> {
		private final long pause;
		private final PrintStream log;

		Answer(long pause, PrintStream log) {
			this.pause = pause;
			this.log = log;
		}

		@Override
		protected void channelRead0(ChannelHandlerContext of, FullHttpRequest request) {
			long began = System.nanoTime();
			String path = request.uri();
			boolean known = request.uri().equals("/here") || request.uri().equals("/slow");
			DefaultFullHttpResponse response = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, known ? HttpResponseStatus.OK : HttpResponseStatus.NOT_FOUND,
				Unpooled.wrappedBuffer("netty".getBytes()));
			response.headers().set("Content-Length", 5);
			int port = ((InetSocketAddress) of.channel().localAddress()).getPort();
			of.executor().schedule(() -> of.writeAndFlush(response).addListener(ChannelFutureListener.CLOSE_ON_FAILURE).addListener(
				done -> log.println(port + " " + path + " " + (known ? 200 : 404) + " " + (System.nanoTime() - began) / 1000)),
				path.equals("/slow") ? pause : 0, TimeUnit.MILLISECONDS);
		}
	}
}
