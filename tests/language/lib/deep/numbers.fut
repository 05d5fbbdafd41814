import "../shapes"
def answer = double 21
