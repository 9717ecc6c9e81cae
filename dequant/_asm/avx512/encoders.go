package main

func encoders() {}
