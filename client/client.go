// Package client connects to a Sealcast gateway: it verifies the gateway's key,
// subscribes to topics and receives their ticks. It knows nothing of Redis or
// the gateway's insides.
//
// A [Client] keeps a connection up and says exactly what was lost on the way. A
// [Conn] is one connection, which does not come back; it starts no goroutine.
//
//	c, err := client.Open(ctx, "wss://ticks.example/ws", client.Options{Pins: pins})
//	...
//	defer c.Close(context.Background())
//	if err := c.Subscribe("md:*:*:ticker"); err != nil { ... }
//	for {
//		event, err := c.Next(ctx)
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
//	read 4   messages.go    messages become events
//	read 5   sequence.go    the sequence rule: tick, gap, reset
//	again    reconnect.go   of a Client: wait, dial, subscribe with positions
package client
