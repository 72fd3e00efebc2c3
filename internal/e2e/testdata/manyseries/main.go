// SPDX-License-Identifier: Apache-2.0

// Command manyseries asks itself over HTTP. `manyseries many` has thousands of routes, methods and statuses, prints a line when it has asked for 300 of
// them, and goes on until its input ends. `manyseries few COUNT` asks COUNT times for each of four, prints a line and waits for the end of its input.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go serve(listener)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	check(err)
	answers := bufio.NewReader(conn)
	switch os.Args[1] {
	case "few":
		count, err := strconv.Atoi(os.Args[2])
		check(err)
		for range count {
			for i, status := range []int{200, 201, 404, 503} {
				ask(conn, answers, "GET", fmt.Sprintf("/own-%c/%d", 'a'+i, status))
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Println("asked")
		<-ended
	case "many":
		methods := []string{"GET", "POST", "PUT", "DELETE"}
		for i := 0; ; i++ {
			if i == 300 {
				fmt.Println("many")
			}
			select {
			case <-ended:
				return
			default:
			}
			ask(conn, answers, methods[i%len(methods)], fmt.Sprintf("/r-%c%c/%d", 'a'+i%26, 'a'+i/26%7, 200+i/7%400))
			time.Sleep(time.Millisecond)
		}
	}
}

func ask(conn net.Conn, answers *bufio.Reader, method, path string) {
	_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n", method, path)
	check(err)
	answer, err := http.ReadResponse(answers, &http.Request{Method: method})
	check(err)
	_, err = io.Copy(io.Discard, answer.Body)
	check(err)
}

// serve answers with the status that is the last part of the path.
func serve(listener net.Listener) {
	conn, err := listener.Accept()
	check(err)
	requests := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		path := request.URL.Path
		_, err = fmt.Fprintf(conn, "HTTP/1.1 %s Status\r\nContent-Length: 0\r\n\r\n", path[strings.LastIndexByte(path, '/')+1:])
		check(err)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
