package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/session"
)

// Subscribe and receive.
func Example() {
	gateway := startGateway()
	defer gateway.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Open(ctx, gateway.URL, client.Options{Pins: []session.PublicKey{gateway.Key}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	if err := c.Subscribe("md:*:*:ticker"); err != nil {
		fmt.Println(err)
		return
	}
	for ticks := 0; ticks < 2; {
		event, err := c.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e := event.(type) {
		case *client.Subscribed:
			fmt.Println("subscribed to", e.Filters)
			gateway.Publish("md:coinbase:BTC-USD:ticker", `{"last":"100.1"}`)
			gateway.Publish("md:coinbase:BTC-USD:ticker", `{"last":"100.2"}`)
		case *client.Tick:
			ticks++
			fmt.Printf("%s %d %s\n", e.Topic, e.Seq, e.Payload)
		case *client.Gap:
			fmt.Printf("%s: %d to %d are lost\n", e.Topic, e.From, e.To)
		case *client.Reset:
			fmt.Printf("%s: what was before is stale\n", e.Topic)
		}
	}

	// Output:
	// subscribed to [md:*:*:ticker]
	// md:coinbase:BTC-USD:ticker 1 {"last":"100.1"}
	// md:coinbase:BTC-USD:ticker 2 {"last":"100.2"}
}

// A Client comes back by itself, and recovers what was published meanwhile.
func ExampleClient() {
	gateway := startGateway()
	defer gateway.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Open(ctx, gateway.URL, gateway.options())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	if err := c.Subscribe("md:a:trade"); err != nil {
		fmt.Println(err)
		return
	}
	waitFor[*client.Subscribed](ctx, c)
	gateway.Publish("md:a:trade", "one")
	fmt.Printf("%s\n", waitFor[*client.Tick](ctx, c).Payload)

	gateway.SendAway(ctx)
	fmt.Println(waitFor[*client.Disconnected](ctx, c).Err)
	gateway.Publish("md:a:trade", "two, while nobody was there")

	fmt.Printf("%s\n", waitFor[*client.Tick](ctx, c).Payload)
	fmt.Printf("%d connections, %d ticks lost\n", c.Stats().Connections, c.Stats().Lost)

	// Output:
	// one
	// gateway ended the session: 1012 gateway restarts (ended by the operator)
	// two, while nobody was there
	// 2 connections, 0 ticks lost
}

// Quotes at a bounded rate for a display, trades one by one.
func ExampleClient_SubscribeWith() {
	gateway := startGateway()
	defer gateway.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Open(ctx, gateway.URL, gateway.options())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	display := client.SubscribeOptions{MaxRate: 2, MaxAge: time.Second}
	if err := errors.Join(c.SubscribeWith(display, "md:*:ticker"), c.Subscribe("md:*:trade")); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		fmt.Println(waitFor[*client.Subscribed](ctx, c).Filters)
	}

	// Output:
	// [md:*:ticker]
	// [md:*:trade]
}

// The wrong key is refused before anything is sent to its owner.
func ExampleOpen_wrongPin() {
	gateway := startGateway()
	defer gateway.Close()

	other, err := session.ParsePin("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Open(context.Background(), gateway.URL, client.Options{Pins: []session.PublicKey{other}})
	var wrong *session.PinError
	fmt.Println(errors.Is(err, session.ErrWrongPin), errors.As(err, &wrong) && wrong.Seen == gateway.Key)

	// Output:
	// true true
}

// One connection, which does not come back.
func ExampleDial() {
	gateway := startGateway()
	defer gateway.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	conn, err := client.Dial(ctx, gateway.URL, gateway.options())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close(ctx)
	answer, err := conn.Subscribe(ctx, "md:a:ticker", "md:a:trade")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = conn.Ping(ctx)
	fmt.Println(answer.Filters, err)

	// Output:
	// [md:a:ticker md:a:trade] <nil>
}
