"""Texts that ask for a calculation, as pools that `grammar` splits into trained and held-out texts.

`FRAMES` have a place `{x}` (`{X}`: with a capital letter) for an expression. All operations share them, and so do
expressions that the calculator does not support: the frame carries no information about its expression. `REQUESTS`
are complete texts of one operation. Lines may have alternatives (`grammar`). `{a}` and `{b}` are the operands in the
calculator's order; where that order does not matter, `{a}` comes first in the text. No number touches a letter, a
decimal point or a percent sign, and no sentence with an operand contains a third number.
Only data, no logic. Try it: `pytest tests/data/test_wording.py -k phrasing`.
"""

from .words import OPERATOR_WORDS


__all__ = ["BIGBENCH", "COUNTED", "EXPRESSIONS", "FRAMES", "REQUESTS"]

# The one form of the BIG-bench arithmetic task, by operator.
BIGBENCH = {symbol: f"What is {{a}} {word} {{b}}?" for symbol, word in OPERATOR_WORDS.items()}

# fmt: off

# By the forms of `EXPRESSIONS` that fit `{x}`.
FRAMES: dict[str, tuple[str, ...]] = {
    "symbols words nouns": (
        "What is {x}?", "What's {x}?", "what is {x}", "what is {x}?", "How much is {x}?", "how much is {x}",
        "Calculate {x}.", "Calculate {x}", "calculate {x}", "Compute {x}.", "Compute: {x}", "compute {x}",
        "Work out {x}.", "Evaluate {x}.", "Find {x}.", "Determine {x}.", "Tell me {x}.", "Give me the value of {x}.",
        "Please calculate {x}.", "Please compute {x}.", "Please work out {x}.", "Please tell me what {x} is.",
        "Can you calculate {x}?", "Could you work out {x}?", "Can you tell me what {x} is?",
        "Could you please compute {x}?", "Would you calculate {x} for me?", "Do you know what {x} is?",
        "I need to know what {x} is.", "I want to know what {x} is.", "I would like you to compute {x}.",
        "Let me know what {x} is.", "Help me calculate {x}.", "Help me with this: what is {x}?",
        "My question is: what is {x}?", "Quick question: what is {x}?", "Here is my question: how much is {x}?",
        "Your task: calculate {x}.", "Do the math: what is {x}?", "Use a calculator to find {x}.",
        "Without any explanation, what is {x}?", "What is the value of {x}?", "What value does {x} have?",
        "What number is {x}?", "Which number is {x}?", "What do you get for {x}?", "Which number do I get for {x}?",
        "What does {x} come to?", "What does {x} equal?", "What does {x} make?", "What is {x} equal to?",
        "Q: What is {x}?\nA:", "Q: What is {x}?\n\nA:", "Question: What is {x}?\nAnswer:",
        "Question: how much is {x}? Answer:", "Problem: Calculate {x}.\nSolution:", "Answer this: what is {x}?",
        "Answer with a number: what is {x}?", "Reply with a number only. What is {x}?",
        "If I calculate {x}, what do I get?", "If you work out {x}, which number do you get?",
        "Somebody asked me what {x} is. What should I say?", "My teacher wants to know {x}. What is it?",
        "I forgot what {x} is. Remind me.", "Find the value of {x}.", "How many is {x}?",
    ),
    "symbols words": (
        "{x}", "{x}?", "What is the answer to {x}?", "What is the result of {x}?", "What is the solution to {x}?",
        "Give me the answer to {x}.", "Give me the result of {x}.", "Please give me the result of {x}.",
        "The answer to {x} is", "The result of {x} is", "Please answer: {x}", "Solve {x}.", "Solve: {x}",
        "Please solve {x}.", "Can you solve {x}?", "Solve this problem: {x}", "Solve the following: {x}",
        "Here is a calculation: {x}. What is the result?", "The calculation is {x}. Give the result.", "Exercise: {x}",
        "Math problem: {x}", "Calculate the following: {x}", "Calculate this for me: {x}", "Result of {x}:",
        "I typed {x} into my calculator. What did it show?",
    ),
    "symbols": (
        "{x} =", "{x}=", "{x} = ?", "Complete: {x} =", "Fill in the result: {x} = ?",
        "Complete the equation: {x} = ?", "If y = {x}, what is y?", "Let n = {x}. What is n?", "Simplify {x}.",
        "x = {x}. What is the value of x?", "print({x})", "Input: {x}\nOutput:", "Q: {x}\nA:", "Solve for y: y = {x}",
    ),
    "words": (
        "{x} is", "{x} equals", "{x} makes", "{x} is how much?", "{x} is what?", "{x} gives which number?",
        "{x}, please.", "{x}, what does that make?", "So {x} is", "Fill in the blank: {x} is ___.",
    ),
    "verbs": (
        "{X}.", "{X}", "{x}", "Please {x}.", "Please {x} for me.", "(Can|Could|Would) you {x}?",
        "(Can|Could|Would) you please {x}?", "(Could|Would) you {x} for me?", "I (want|need|would like) you to {x}.",
        "I (want|need|have|would like) to {x}.", "(Help me|Let us|Let's) {x}.", "Now {x}.", "Go ahead and {x}.",
        "What do (you|I|we) get (if|when) (you|I|we) {x}?", "What (is|would be) the result (if|when) (you|I|we) {x}?",
        "What comes out (if|when) (you|I|we) {x}?", "If (you|I|we) {x}, what (do you|do I|do we) get?",
        "If (you|I|we) {x}, (which|what) number comes out?", "{X} and (tell|show|give) me the (result|answer).",
        "{X} and (write down|say) the (result|answer).", "(Exercise|Task|Your task|Problem): {x}.",
        "Q: {X}.\nA:", "Question: {X}.\nAnswer:", "(Tell me|Say) what you get (if|when) you {x}.",
        "My (task|homework|exercise) is to {x}.", "(I must|I have to|We have to) {x}. What do (I|we) get?",
        "How much (is it|do you get) (if|when) you {x}?", "My (calculator|teacher|friend) can {x}. Can you?",
        "Use (a|your) calculator to {x}.", "The (answer|result) when you {x} is", "(Try to|Quickly) {x}.",
    ),
}

# For `{x}`, by operator and form: symbols "5 + 3", words "5 plus 3", nouns "the sum of 5 and 3", verbs "add 5 and 3".
EXPRESSIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "+": {
        "symbols": ("{a} + {b}", "{a}+{b}"),
        "words": ("{a} plus {b}", "{a} added to {b}"),
        "nouns": ("the sum of {a} and {b}", "the total of {a} and {b}", "the result of adding {a} and {b}"),
        "verbs": (
            "(add|sum|combine) {a} and {b}", "(add|sum) up {a} and {b}", "add {a} to {b}", "add {a} and {b} together",
            "(take|start with) {a} and (add|then add) {b}", "increase {a} by {b}", "put {a} and {b} together",
            "add the (numbers|values|integers) {a} and {b}", "add (together|up) {a} and {b}",
        ),
    },
    "-": {
        "symbols": ("{a} - {b}", "{a}-{b}", "{a} − {b}"),
        "words": ("{a} minus {b}", "{a} take away {b}", "{b} subtracted from {a}"),
        "nouns": ("the result of subtracting {b} from {a}", "the result of taking {b} away from {a}"),
        "verbs": (
            "(subtract|deduct|take|remove) {b} from {a}", "take {b} away from {a}", "take away {b} from {a}",
            "(take|start with) {a} and (subtract|take away) {b}", "(decrease|reduce|lower) {a} by {b}",
            "subtract the number {b} from {a}", "subtract {b} from the number {a}",
        ),
    },
    "*": {
        "symbols": ("{a} * {b}", "{a}*{b}", "{a} x {b}", "{a} × {b}", "{a}×{b}", "{a} · {b}"),
        "words": ("{a} times {b}", "{a} multiplied by {b}"),
        "nouns": ("the product of {a} and {b}", "the result of multiplying {a} by {b}"),
        "verbs": (
            "multiply {a} (by|with|and) {b}", "multiply {a} and {b} together", "take {a} times {b}",
            "(take|start with) {a} and multiply (it |)by {b}", "multiply the (numbers|values|integers) {a} and {b}",
            "multiply the number {a} (by|with) {b}", "find {a} times {b}",
        ),
    },
    "/": {
        "symbols": ("{a} / {b}", "{a}/{b}", "{a} ÷ {b}", "{a}÷{b}"),
        "words": ("{a} divided by {b}", "{a} over {b}"),
        "nouns": ("the quotient of {a} and {b}", "the ratio of {a} to {b}", "the result of dividing {a} by {b}"),
        "verbs": (
            "divide {a} by {b}", "divide the number {a} by {b}", "(take|start with) {a} and divide (it |)by {b}",
            "divide {a} (evenly|equally) by {b}", "divide {a} by the number {b}",
        ),
    },
}

REQUESTS: dict[str, tuple[str, ...]] = {
    "+": (
        "(Sum|Total) of {a} and {b}(:|?)", "(sum|add|plus|addition)({a}, {b})", "{a} + {b} (is|equals|makes)",
        "What is {a} (increased|enlarged) by {b}?", "{a} (increased|enlarged) by {b} (is|makes|equals)",
        "(Which|What) number is {a} (more|greater|larger) than {b}?", "What is {a} more than {b}?",
        "(If|When) (x|n|p) is {a} and (y|m|q) is {b}, what is (their|the) (sum|total)?",
        "(If|Suppose|Say) x = {a} and y = {b}(, what is|, how much is|, what do you get for) x + y?",
        "Let a = {a} and b = {b}(. Find|, find|; compute|. Calculate) a + b.",
        "(With|For) a = {a} and b = {b}, (find|compute|calculate) a + b.",
        "a = {a}\nb = {b}\n(a + b =|a + b is|c = a + b\nc =)", "x = {a}\ny = {b}\n(x + y =|x + y is|What is x + y?)",
        "(Given|For) x = {a} and y = {b}, (compute|find|calculate) (the sum|the total|x plus y).",
        "First number: {a}. Second number: {b}. (Add them.|Find their sum.|What is the sum?|Give the total.)",
        "The first number is {a}(,| and) the second (one |number |)is {b}. (What is their sum?|Add them.|Find the "
        "total.)",
        "(The|My|Your) numbers are {a} and {b}. (What is their sum?|What is their total?|Add them.|Sum them up.)",
        "Numbers: {a} and {b}. (Operation|Task|What to do): (addition|add|sum). (Result|Answer):",
        "(I have|Here are|Take) the numbers {a} and {b}. (What is their sum?|Add them up.|Add them together.|What is "
        "the total?)",
        "The (numbers|values) {a} and {b} are (added|summed). What is the (sum|result|total)?",
        "(When|If) {a} is added to {b}, (what is the result|which number comes out|what do you get)?",
        "(If|When) (you|we) (combine|join) {a} and {b}, what (is the total|do (you|we) get)?",
        "Put {a} and {b} together. (What is the total|How much is it|What do you get)?",
        "(Combine|Join) {a} with {b}. How much is it (altogether|in all|in total)?",
        "How much (do {a} and {b} make|are {a} and {b}) (together|altogether|in all|in total)?",
        "What do {a} and {b} (add up to|make together|make when added|sum to|come to together)?",
        "{a} and {b} (add up to|together make|make together|sum to|are together|added make)",
        "If {a} (grows|rises|goes up) by {b}, (what|which) is the new number?", "(Addition|Sum|Add): {a} and {b}",
        "(Perform|Do|Carry out) the addition of {a} and {b}.", "Find the (sum|total): {a} and {b}.",
        "(I|We|They) added {a} and {b}. What (came out|was the result|is the result)?",
        "(My|The|This) calculator adds {a} to {b}. What does it (show|say)?",
        "(The sum|The total|The answer to the sum) of {a} and {b} is",
        "The (answer when|result of) adding {a} and {b} is",
        "{a} is one number(,| and) {b} is (another|the other). (Add them.|What is their sum?|Find the total.)",
    ),
    "-": (
        "From {a}(,|) (subtract|take away|take|deduct) {b}.", "(subtract|minus|sub|subtraction)({a}, {b})",
        "What is {a} (decreased|reduced|lowered) by {b}?", "{a} (decreased|reduced|lowered) by {b} (is|makes|equals)",
        "What is {a} less {b}?", "(Which|What) number is {b} (less|smaller) than {a}?", "What is {b} less than {a}?",
        "(What|How much) (is left|remains) (if|when) (you take|you remove|I take) {b} (away |)from {a}?",
        "(What|How much) (is left|remains) of {a} (if|when) {b} is (removed|taken away|subtracted)?",
        "(What|How much) (is left|remains) of {a} after (subtracting|taking away|removing) {b}?",
        "(What|How much|Which number) must be added to {b} to (get|reach|make) {a}?",
        "(How much|What) must I add to {b} to (reach|get|make) {a}?", "Remove {b} from {a}. What (is left|remains)?",
        "(If|When) (x|n|p) is {a} and (y|m|q) is {b}, what is the first minus the second?",
        "(If|Suppose|Say) x = {a} and y = {b}(, what is|, how much is|, what do you get for) x - y?",
        "(If|Suppose|Say) y = {b} and x = {a}(, what is|, how much is|, what do you get for) x - y?",
        "Let a = {a} and b = {b}(. Find|, find|; compute|. Calculate) a - b.",
        "(With|For) a = {a} and b = {b}, (find|compute|calculate) a - b.",
        "a = {a}\nb = {b}\n(a - b =|a - b is|c = a - b\nc =)", "x = {a}\ny = {b}\n(x - y =|x - y is|What is x - y?)",
        "(Given|For) x = {a} and y = {b}, (compute|find|calculate) x minus y.",
        "First number: {a}. Second number: {b}. (Subtract|Take) the second (one |)from the first.",
        "The first number is {a}(,| and) the second (one |number |)is {b}. What is the first minus the second?",
        "(Subtract|Take) the first number from the second. First: {b}. Second: {a}.",
        "When {b} is (subtracted|taken|deducted) from {a}, (what is the result|which number comes out|what is left)?",
        "If {b} is (subtracted|taken|deducted) from {a}, (what is the result|which number comes out|what is left)?",
        "If {a} (drops|falls|goes down) by {b}, (what|which) is the new number?", "{b} less than {a} is",
        "{a} with {b} (taken away|removed|subtracted) (is|leaves|makes)",
        "(Subtract|Subtraction|Take away): {a} - {b}", "(Perform|Do|Carry out) the subtraction(:|) {a} (-|minus) {b}.",
        "(Subtraction|Difference): {a} minus {b}",
        "(I|We|They) (subtracted|took) {b} from {a}. What (came out|was left|was the result|is the result)?",
        "(My|The|This) calculator (takes|subtracts) {b} from {a}. What does it (show|say)?",
        "(Find|Give|Say) the difference: {a} - {b}.", "What is the difference (when|if) {b} is subtracted from {a}?",
        "Tell me (how much|what) {a} minus {b} (leaves|is|makes).",
        "The (answer when|result of) subtracting {b} from {a} is",
    ),
    "*": (
        "(Product|Multiplication) of {a} and {b}(:|?)", "(multiply|product|mul|times)({a}, {b})",
        "{a} * {b} (is|equals|makes)",
        "(If|When) (x|n|p) is {a} and (y|m|q) is {b}, what is (their|the) product?",
        "(If|Suppose|Say) x = {a} and y = {b}(, what is|, how much is|, what do you get for) x (*|times) y?",
        "Let a = {a} and b = {b}(. Find|, find|; compute|. Calculate) a * b.",
        "(With|For) a = {a} and b = {b}, (find|compute|calculate) a * b.",
        "a = {a}\nb = {b}\n(a * b =|a * b is|c = a * b\nc =)", "x = {a}\ny = {b}\n(x * y =|x * y is|What is x * y?)",
        "(Given|For) x = {a} and y = {b}, (compute|find|calculate) (the product|x times y).",
        "First number: {a}. Second number: {b}. (Multiply them.|Find their product.|What is the product?)",
        "The first number is {a}(,| and) the second (one |number |)is {b}. (What is their product?|Multiply them.)",
        "(The|My|Your) numbers are {a} and {b}. (What is their product?|Multiply them.|Find the product.)",
        "The factors are {a} and {b}. (What is the product?|What is the result?|Multiply them.)",
        "Numbers: {a} and {b}. (Operation|Task|What to do): (multiplication|multiply|product). (Result|Answer):",
        "(I have|Here are|Take) the numbers {a} and {b}. (What is their product?|Multiply them.)",
        "The (numbers|values) {a} and {b} are multiplied. What is the (product|result)?",
        "(When|If) {a} is multiplied (by|with) {b}, (what is the result|which number comes out|what do you get)?",
        "What (do|will) {a} and {b} (multiply to|make when multiplied)?",
        "{a} and {b} (multiplied|when multiplied) (make|are|give)",
        "{a} (multiplied by|times) {b} (gives|makes|results in)", "(Multiplication|Product|Multiply): {a} and {b}",
        "(Multiplication|Product): {a} times {b}",
        "(Perform|Do|Carry out) the multiplication (of {a} and {b}|{a} times {b}|of {a} by {b}).",
        "Find the product: {a} and {b}.",
        "(I|We|They) multiplied {a} (by|with) {b}. What (came out|was the result|is the result)?",
        "(My|The|This) calculator multiplies {a} (by|with) {b}. What does it (show|say)?",
        "The product of {a} and {b} (is|equals)", "The (answer when|result of) multiplying {a} (by|with) {b} is",
        "(Scale|Stretch|Enlarge) {a} by a factor of {b}.",
        "{a} is one factor(,| and) {b} is the other. (Multiply them.|What is the product?|Find the product.)",
        "Take the number {a}. Now (multiply it by|take it times) {b}. (What is it now|Which number is it)?",
    ),
    "/": (
        "(Quotient|Division) of {a} and {b}(:|?)", "(divide|quotient|div|division)({a}, {b})",
        "{a} / {b} (is|equals|makes)",
        "(If|When) (x|n|p) is {a} and (y|m|q) is {b}, what is the first divided by the second?",
        "(If|Suppose|Say) x = {a} and y = {b}(, what is|, how much is|, what do you get for) x (/|divided by) y?",
        "(If|Suppose|Say) y = {b} and x = {a}(, what is|, how much is|, what do you get for) x / y?",
        "Let a = {a} and b = {b}(. Find|, find|; compute|. Calculate) a / b.",
        "(With|For) a = {a} and b = {b}, (find|compute|calculate) a / b.",
        "a = {a}\nb = {b}\n(a / b =|a / b is|c = a / b\nc =)", "x = {a}\ny = {b}\n(x / y =|x / y is|What is x / y?)",
        "(Given|For) x = {a} and y = {b}, (compute|find|calculate) x divided by y.",
        "First number: {a}. Second number: {b}. Divide the first (one |number |)by the second.",
        "(Divide|Now divide) the second number by the first. First: {b}. Second: {a}.",
        "The first number is {a}(,| and) the second (one |number |)is {b}. What is the first divided by the second?",
        "The dividend is {a}(,| and) the divisor is {b}. What is the (quotient|result)?",
        "The divisor is {b}(,| and) the dividend is {a}. What is the (quotient|result)?",
        "(When|If) {a} is divided by {b}, (what is the result|which number comes out|what do you get)?",
        "By (what|which number|how much) must {b} be multiplied to (get|reach|make) {a}?",
        "(Which number|What) times {b} (is|makes|gives) {a}?", "{a} divided by {b} (gives|makes|results in)",
        "(Division|Quotient|Divide): {a} by {b}", "(Division|Quotient): {a} divided by {b}",
        "(Perform|Do|Carry out) the division (of {a} by {b}|{a} divided by {b}|{a} by {b}).",
        "(Find|Give|Say) the quotient: {a} divided by {b}.",
        "(I|We|They) divided {a} by {b}. What (came out|was the result|is the result)?",
        "(My|The|This) calculator divides {a} by {b}. What does it (show|say)?",
        "(The quotient|The ratio) of {a} and {b} (is|equals|makes)", "The ratio of {a} to {b} (is|equals)",
        "The (answer when|result of) dividing {a} by {b} is",
        "Take the number {a}. Now divide it by {b}. (What is it now|Which number is it)?",
    ),
}

# Only for counts: no negative operand, no more taken away than there is, no division by zero.
COUNTED: dict[str, tuple[str, ...]] = {
    "+": (
        "Take the number {a}. Now (add {b}|make it {b} larger). (What is it now|Which number is it)?",
        "Start at {a} and (count|go) up by {b}. (Where do you end|Which number do you reach|What do you get)?",
    ),
    "-": (
        "Count (back|down) {b} from {a}. (Which number do you reach|Where do you end)?",
        "Take the number {a}. Now (take {b} away|make it {b} smaller). (What is it now|Which number is it)?",
        "Start at {a} and (count|go) (down|back) by {b}. (Where do you end|Which number do you reach|What do you "
        "get)?",
        "How much (more|larger|greater|bigger) is {a} than {b}?", "How much (less|smaller) is {b} than {a}?",
        "How much (larger|greater) than {b} is {a}?", "By how much is {a} (greater|larger|more) than {b}?",
        "By how much is {b} (smaller|less) than {a}?", "By how much does {a} (exceed|go beyond) {b}?",
        "How far is it from {b} up to {a}?",
        # The larger number comes first: of the other order it is not said whether the difference is below zero.
        "(What is|What's|Find|Give me|Calculate|Compute|Tell me) the difference (between|of) {a} and {b}(.|?)",
        "(The|Their) difference (between|of) {a} and {b} is", "Difference (between|of) {a} and {b}(:|?|)",
        "How (big|large) is the difference between {a} and {b}?",
    ),
    "*": (
        "(How much|What) is {a} (taken|counted) (exactly|altogether) {b} times?",
        "Take the number {a} (exactly|altogether) {b} times. What (is the total|do you get)?",
        "What (do you|do I|do we) get (if|when) (you|I|we) take {a} exactly {b} times?",
        "{a} groups of {b} (make|are) (how many|what)?", "How many are {a} (sets|groups|lots) of {b}?",
        "What is the area of a (rectangle|field|room) that is {a} long and {b} wide?",
        "A rectangle (has sides {a} and {b}|is {a} long and {b} wide). (What is its area|How large is its area)?",
    ),
    "/": (
        "How many (groups|lots|sets) of {b} are (there |)in {a}?",
        "How (many times|often) (does {b} (go|fit) into|is {b} contained in) {a}?",
        "How (many times|often) is {b} in {a}?", "{b} (goes|fits) into {a} how (many times|often)?",
        "(Split|Divide|Cut) {a} into {b} equal (parts|pieces|shares). How (large|big|much) is (each|one of them)?",
        "If {a} is (split|divided|cut) into {b} equal (parts|shares), how much is (each|one of them)?",
        "{a} (split|divided) into {b} equal (parts|shares) (is|makes|gives)",
        "A (rectangle|field|room) has area {a} and width {b}. (How long is it|What is its length)?",
        "How many times as (large|big|much) as {b} is {a}?",
        "How (many times|often) can {b} be (taken out of|subtracted from) {a} until nothing is left?",
    ),
}
# fmt: on
