// Package client connects to a Sealcast gateway: it verifies the gateway's key,
// subscribes to topics and receives their ticks. It is the connection layer: it
// never reconnects, starts no goroutine, and knows nothing of Redis or the
// gateway's insides.
//
//	conn, err := client.Dial(ctx, "wss://ticks.example/ws", client.Options{Pins: pins})
//	...
//	defer conn.Close(context.Background())
//	if _, err := conn.Subscribe(ctx, "md:*:*:ticker"); err != nil { ... }
//	for {
//		event, err := conn.Next(ctx)
//		...
//	}
//
// The flow of a connection:
//
//	dial 1   upgrade.go     TCP
//	dial 2   upgrade.go     TLS, for wss
//	dial 3   upgrade.go     WebSocket upgrade; the gateway selects a suite
//	dial 4   dial.go        handshake; the gateway's key is compared with the pins
//	dial 5   dial.go        Connect, Connected
//	read 1   frames.go      frames become messages
//	read 2   link.go        a record is opened
//	read 3   conn.go        answers go to who waits for them, the rest to Next
//	read 4   sequence.go    the sequence rule: tick, gap, reset
package client
